package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/client/gateway"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// benchPipeline measures the whole way. First latency: every role runs in this
// process with the production wiring; a crowd beats through the Go client every
// 15 s; fifty times a second somebody new comes, half of them over HTTP and half
// through the Go client, and it is timed when a consumer that reads committed has the
// transition, and for every fifth when GET /presence/{user} says online. Then
// throughput: how many beats a second one gateway's client and one detector carry,
// ingest to handled, with twenty times as many users.
//
// What the tools cost (the probes, the consumer, the crowd) is on the same machine
// and in the figures.
func benchPipeline(ctx context.Context, o *Options, r *Result) error {
	if err := latency(ctx, o, r); err != nil {
		return err
	}
	return throughput(ctx, o, r)
}

func latency(ctx context.Context, o *Options, r *Result) (err error) {
	if err := checkAlone(ctx, o); err != nil {
		return err
	}
	rig, err := newRig(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, rig.close()) }()
	url, admin, stop, err := rig.everyRole(ctx)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, stop()) }()

	probes := newProbes(url)
	watch := &watcher{seen: probes.published}
	watching := rig.watch(ctx, watch)
	defer func() { err = joined(err, watching.stop()) }()
	g, closeGateway, err := rig.gateway(ctx)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, closeGateway()) }()

	beats := newBeating(o.Users, g)
	if err := beats.everybody(); err != nil {
		return err
	}
	waiting := func() string { return fmt.Sprintf("%d of %d users are online", watch.online.Load(), o.Users) }
	if err := o.until(ctx, waiting, func() bool { return watch.online.Load() >= int64(o.Users) }); err != nil {
		return err
	}
	// Ready alone forgives a few seconds of lag, in which the first probes would wait
	// behind the crowd's arrivals for their place in Redis.
	isReady := ready(admin)
	caughtUp := func() bool { return isReady() && kept(ctx, admin) }
	if err := o.until(ctx, func() string { return "waiting for the stores to catch up with the crowd" }, caughtUp); err != nil {
		return err
	}
	if err := o.measured(func() error { return probes.run(ctx, o, beats, g) }); err != nil {
		return err
	}
	for _, door := range []struct {
		name string
		late spread
	}{{"HTTP beat to committed transition", probes.http.all()}, {"Go client's beat to committed transition", probes.client.all()},
		{"HTTP beat to the API's answer", probes.read.all()}} {
		_, p99, _ := r.addSpread(door.name, door.late)
		if door.name != "HTTP beat to the API's answer" {
			p99.atMost(50)
		}
	}
	r.note(fmt.Sprintf("%d probes; %d users beat every %s.", probes.sent, o.Users, crowdInterval))
	return nil
}

// checkAlone refuses a cluster on which a Stillhere lives: the roles have fixed
// names for their groups.
func checkAlone(ctx context.Context, o *Options) error {
	if len(o.Brokers) == 0 {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, setUp)
	defer cancel()
	if _, err := kafka.CheckTopics(asking, kafka.Config{Brokers: o.Brokers}); err == nil {
		return fmt.Errorf("there is a Stillhere on the Kafka at %v (it has topics that begin with %q), whose consumer groups this bench would join: choose another cluster",
			o.Brokers, schemas.DefaultPrefix)
	}
	return nil
}

// everyRole runs all roles in this process until stop is called.
func (r *rig) everyRole(ctx context.Context) (url, admin string, stop func() error, err error) {
	url, admin, _, stop, err = r.everyRoleIn(ctx, nil)
	return url, admin, stop, err
}

// storeFile is where the durable store is, in the folder of everyRoleIn.
const storeFile = "bench.db"

// everyRoleIn is everyRole with changed settings, and tells the folder of the store,
// which goes with stop.
func (r *rig) everyRoleIn(ctx context.Context, change func(*app.Config)) (url, admin, dir string, stop func() error, err error) {
	dir, err = os.MkdirTemp("", "stillhere-bench-")
	if err != nil {
		return "", "", "", nil, fmt.Errorf("making a folder for the store: %w", err)
	}
	config := app.Defaults()
	config.Instance = "bench"
	config.Kafka, config.Redis.Addr = r.kafka, r.redis
	config.Store = app.Store{SQLite: filepath.Join(dir, storeFile)}
	for _, address := range []*string{&config.Listen, &config.Admin} {
		if *address, err = freeAddress(); err != nil {
			return "", "", "", nil, joined(err, os.RemoveAll(dir))
		}
	}
	if change != nil {
		change(&config)
	}
	started := make(chan struct{})
	all := start(ctx, func(ctx context.Context) error {
		return app.Run(ctx, "all", config, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})), func() { close(started) })
	})
	stop = func() error { return joined(all.stop(), os.RemoveAll(dir)) }
	select {
	case <-started:
		return "http://" + config.Listen, "http://" + config.Admin, dir, stop, nil
	case err := <-all.ended:
		return "", "", "", nil, joined(err, os.RemoveAll(dir))
	case <-time.After(patience):
		return "", "", "", nil, joined(errors.New("the roles did not become ready"), stop())
	}
}

// ready asks whether the process behind the address is: everything has caught up.
func ready(admin string) func() bool {
	client := &http.Client{Timeout: 10 * time.Second}
	var last time.Time
	return func() bool {
		if time.Since(last) < 100*time.Millisecond {
			return false
		}
		last = time.Now()
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, admin+"/readyz", nil)
		if err != nil {
			return false
		}
		response, err := client.Do(request)
		return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}
}

// freeAddress is one that nobody listens on now.
func freeAddress() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// gateway is a Go program's gateway, connected.
func (r *rig) gateway(ctx context.Context) (*gateway.Gateway, func() error, error) {
	g, err := gateway.Dial(ctx, gateway.Config{Brokers: r.kafka.Brokers, ID: "bench", TopicPrefix: r.kafka.Prefix,
		ForgetAfter: time.Hour, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	running := start(context.WithoutCancel(ctx), g.Run)
	return g, func() error {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), setUp)
		defer cancel()
		return joined(g.Close(closing), running.stop())
	}, nil
}
