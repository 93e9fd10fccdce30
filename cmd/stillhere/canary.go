package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/canary"
	"github.com/stillhere/stillhere/tools/dataset"
)

// canaryCommand acts as two users and reports what they see.
type canaryCommand struct {
	URL     string `help:"URL of the role ingest, or of the entrance that users have." default:"http://127.0.0.1:8080"`
	ReadURL string `help:"URL of the role api. Default: --url." placeholder:"URL"`
	User    string `help:"The user that comes and says bye in each round. Another one, the id below or, with --ids text, the name followed by -silent, comes and falls silent. Reserve both, and use others for each region. Default: 9223372036854775807, with --ids text stillhere-canary."`
	tenantFlag
	Interval time.Duration `help:"Time from one round to the next, at least 5s. A round publishes two changes, a silent one up to three." default:"10s"`
	Timeout  time.Duration `help:"Timeout of each step; a silent user may be so late." default:"5s"`
	tokenFlag
	Server app.AdminServer `embed:"" group:"HTTP server:"`
	policyFlag
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

With --kafka-brokers it follows the policy in force. Without, give it --policy, or it expects the defaults. A server with authentication wants a token of a gateway, since it beats for two users: stillhere token --gateway canary --for 8760h.

With --ids text the users have names, stillhere-canary and stillhere-canary-silent of --tenant, and it expects the policy of their tenant. Only the replay needs the identity key.

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
		return misused(errTwoTokens)
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
	replays := len(c.Kafka.Brokers) > 0
	cluster := kafka.Config{}
	if replays {
		var err error
		if cluster, err = c.cluster(); err != nil {
			return misused(err)
		}
		if err := checkIdentity(ctx, cluster); errors.As(err, new(misuse)) {
			return err
		} // Kafka may be down: reporting that is the canary's job
	}
	user, silent, err := c.users(cluster.Users)
	if err != nil {
		return misused(err)
	}
	var inForce atomic.Pointer[schemas.Policy]
	inForce.Store(&settings)
	config := canary.Config{
		Ingest: reach, Reads: reads, User: user, Silent: silent,
		Interval: c.Interval, Timeout: c.Timeout, Policy: func() schemas.Policy { return *inForce.Load() },
		Registry: registry, Logger: log,
	}
	run := app.Command{Name: "canary", Version: version, Registry: registry, AdminServer: c.Server}
	follow := func(context.Context) {}
	if replays {
		reader, err := kafka.NewReader(cluster, log)
		if err != nil {
			return misused(err)
		}
		defer reader.Close()
		config.Log = dataset.Topic{Reader: reader}
		follow = followPolicy(ctx, cluster, &inForce, c.Timeout, log)
		if cluster.Users.Text() {
			of := tenants.NewDirectory(reader, schemas.TenantQuotas{}, log)
			config.Policy = func() schemas.Policy { return inForce.Load().For(of.Policies()[user.Name.Tenant]) }
			follow = together(follow, followTenants(ctx, of, c.Timeout, log))
		}
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
	log.Info("starting", "role", "canary", "version", version, "user", user.String(), "silent_user", silent.String(),
		"policy", settings.ID(), "replays", config.Log != nil)
	return app.RunCommand(ctx, run, log)
}

// users are the two that act. replaying are those of the pipeline with --kafka-brokers; of others only the
// mode is known.
func (c *canaryCommand) users(replaying identity.Users) (user, silent canary.User, err error) {
	if identity.Mode(c.Kafka.IDs) != identity.Text {
		if c.Tenant != nil {
			return user, silent, errTenants
		}
		user.ID = canary.DefaultUser
		if c.User != "" {
			user.ID, err = schemas.ParseUserID("--user", c.User)
		}
		if silent.ID = user.ID - 1; err == nil && silent.ID < 1 {
			err = schemas.Invalid("--user", "must be at least 2, as the silent user is the one below")
		}
		return user, silent, err
	}
	tenant := ""
	if c.Tenant != nil {
		tenant = *c.Tenant
	}
	user.Name = schemas.Name{Tenant: tenant, Text: cmp.Or(c.User, canary.DefaultName)}
	silent.Name = schemas.Name{Tenant: tenant, Text: user.Name.Text + "-silent"}
	if err := errors.Join(schemas.CheckTenant("--tenant", tenant), schemas.CheckName("--user", user.Name.Text),
		schemas.CheckName("--user", silent.Name.Text)); err != nil || !replaying.Text() {
		return user, silent, err
	}
	user.ID, silent.ID = replaying.ID(tenant, user.Name.Text), replaying.ID(tenant, silent.Name.Text)
	return user, silent, nil
}

// followTenants reads the policies of tenants, and returns what follows them until ctx ends.
func followTenants(ctx context.Context, of *tenants.Directory, limit time.Duration, log *slog.Logger) func(context.Context) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := of.Load(bounded); err != nil {
		log.Warn("the policies of tenants are unknown, so the canary expects that of the pipeline until they can be read", "error", err)
	}
	return func(ctx context.Context) { _ = of.Run(ctx) } // it ends with ctx
}

// together runs all, and returns when they have ended.
func together(all ...func(context.Context)) func(context.Context) {
	return func(ctx context.Context) {
		var work sync.WaitGroup
		for _, one := range all {
			work.Go(func() { one(ctx) })
		}
		work.Wait()
	}
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
