package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/canary"
)

// canaryCommand acts as two users and reports what they see.
type canaryCommand struct {
	URL        string        `help:"URL of the role ingest, or of the entrance that users have." default:"http://127.0.0.1:8080"`
	ReadURL    string        `help:"URL of the role api. Default: --url." placeholder:"URL"`
	User       int64         `help:"The user that comes and says bye in each round. Reserve it, and use another one for each region." default:"9223372036854775807"`
	SilentUser int64         `help:"The user that comes and falls silent. Default: the one below --user." default:"0"`
	Interval   time.Duration `help:"Time from one round to the next, at least 5s. A round publishes two changes, a silent one up to three." default:"10s"`
	Timeout    time.Duration `help:"Timeout of each step; a silent user may be so late." default:"5s"`
	TokenFile  string        `help:"File with the bearer token, read for each request." type:"path"`
	tokenFlag
	Server      app.AdminServer `embed:"" group:"HTTP server:"`
	policyFlags `group:"Policy:"`
	kafkaFlags
	logFlags
}

// Help is shown above the flags.
func (*canaryCommand) Help() string {
	return `The canary acts as two users that nobody else has. One comes and says bye in each round; the other comes and falls silent. It sends heartbeats over HTTP, watches both on the stream, reads them and, with --kafka-brokers, replays presence.transitions. Its metrics are what users see of the service:

    stillhere_canary_step_seconds{step}            beat, online, read, bye, away, silence, replay
    stillhere_canary_failures_total{step,reason}   early: a user was shown offline before the policy allows it
    stillhere_canary_rounds_total{leave,result}    the share of failed rounds is the service level

Try it beside "stillhere dev", which prints the address of its Kafka:

    stillhere canary --kafka-brokers 127.0.0.1:PORT
    curl -s 127.0.0.1:9090/metrics | grep canary

With --kafka-brokers it follows the policy in force. Without, give it the policy's flags, such as STILLHERE_ONLINE_TTL in the environment, or it expects the defaults. A server with authentication wants a token of a gateway, since it beats for two users: stillhere token --gateway canary --for 8760h.

Run one canary per region, each with two users of its own (--user 9223372036854775805 in the second region, 9223372036854775803 in the third): two canaries with one user make each other fail. /readyz is 200 while rounds end, whether they succeed or not.`
}

// Run beats and watches until ctx ends.
func (c *canaryCommand) Run(ctx context.Context) error {
	log, registry := c.logger(), prometheus.NewRegistry()
	// Each request has a connection of its own, as a new user's has: none can hang for all.
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck,forcetypeassert // it is one
	transport.DisableKeepAlives = true
	reach := client.HTTP{URL: c.URL, Client: &http.Client{Transport: transport}}
	switch {
	case c.Token != "" && c.TokenFile != "":
		return misused(errors.New("--token, --token-file: only one of the two can be given"))
	case c.Token != "":
		reach.Token = client.Token(c.Token)
	case c.TokenFile != "":
		reach.Token = client.TokenFile(c.TokenFile)
	}
	reads := reach
	reads.URL = cmp.Or(c.ReadURL, c.URL)
	settings := c.settings()
	if err := settings.Validate(); err != nil {
		return misused(err)
	}
	var inForce atomic.Pointer[schemas.Policy]
	inForce.Store(&settings)
	config := canary.Config{
		Ingest: reach, Reads: reads, User: schemas.UserID(c.User), Silent: schemas.UserID(cmp.Or(c.SilentUser, c.User-1)),
		Interval: c.Interval, Timeout: c.Timeout, Policy: func() schemas.Policy { return *inForce.Load() },
		Registry: registry, Logger: log,
	}
	run := app.Command{Name: "canary", Version: version, Registry: registry, AdminServer: c.Server}
	follow := func(context.Context) {}
	if len(c.Kafka.Brokers) > 0 {
		cluster, err := c.cluster()
		if err != nil {
			return misused(err)
		}
		reader, err := kafka.NewReader(cluster, log)
		if err != nil {
			return misused(err)
		}
		defer reader.Close()
		config.Log = canary.Topic{Reader: reader}
		follow = followPolicy(ctx, cluster, &inForce, c.Timeout, log)
	}
	acting, err := canary.New(config)
	if err != nil {
		return misused(err)
	}
	run.Ready = acting.Ready
	run.Run = func(ctx context.Context) error {
		done := make(chan struct{})
		go func() { defer close(done); follow(ctx) }()
		defer func() { <-done }()
		return acting.Run(ctx)
	}
	log.Info("starting", "role", "canary", "version", version, "user", config.User, "silent_user", config.Silent,
		"policy", settings.ID(), "replays", config.Log != nil)
	return app.RunCommand(ctx, run, log)
}

// followPolicy looks up the policy in force, and returns what keeps it until ctx ends. What cannot be
// read leaves the policy as it is.
func followPolicy(ctx context.Context, cluster kafka.Config, inForce *atomic.Pointer[schemas.Policy], limit time.Duration,
	log *slog.Logger,
) func(context.Context) {
	found := func(all []policy.Partition, err error) {
		p, ok := policy.Newest(all)
		switch {
		case err != nil:
			log.Warn("the policy in force is unknown, so the canary expects that of its flags, or the last one known", "error", err)
		case ok && p.ID() != inForce.Load().ID():
			log.Info("the canary expects the policy in force", "policy", p.ID())
			inForce.Store(&p)
		}
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	all, err := policy.InForce(bounded, cluster)
	found(all, err)
	return func(ctx context.Context) { policy.Watch(ctx, cluster, len(all) > 0, found) }
}
