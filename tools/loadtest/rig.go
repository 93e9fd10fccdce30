package loadtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/app"
	api "github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/gateway"
	"github.com/stillhere/stillhere/detector"
	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/schemas"
)

// Rig is a Kafka with topics of its own, and a producer and a reader for it.
type Rig struct {
	Kafka    kafka.Config
	Redis    string // the stand-in
	Producer *kafka.Producer
	Reader   *kafka.Reader
	Log      *slog.Logger
	o        *Options
	serving  *Process
}

// setUp bounds what is only asking Kafka for something.
const setUp = time.Minute

// NewRig makes one. Its topics have names that nobody else uses.
func NewRig(ctx context.Context, o *Options) (r *Rig, err error) {
	r = &Rig{o: o, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
			r = nil
		}
	}()
	if r.serving, err = o.Start(ctx, "serve", nil); err != nil {
		return r, err
	}
	var at standIns
	if err := r.serving.Hear(&at); err != nil {
		return r, err
	}
	r.Redis = at.Redis
	r.Kafka = kafka.Config{Brokers: at.Kafka, InstanceName: "bench", Prefix: fmt.Sprintf("stillhere-bench-%d.", time.Now().UnixMilli())}
	if len(o.Brokers) > 0 {
		r.Kafka.Brokers = o.Brokers
	}
	asking, cancel := context.WithTimeout(ctx, setUp)
	defer cancel()
	if _, err = admin.ApplyTopics(asking, r.Kafka, o.Partitions, -1); err != nil {
		return r, err
	}
	if r.Producer, err = kafka.NewProducer(r.Kafka, r.Log, nil); err != nil {
		return r, err
	}
	r.Reader, err = kafka.NewReader(r.Kafka, r.Log)
	return r, err
}

// Close gives everything back, the topics on brokers that are not ours too.
func (r *Rig) Close() error {
	var faults []error
	ctx, cancel := context.WithTimeout(context.Background(), setUp)
	defer cancel()
	if r.Producer != nil {
		faults = append(faults, r.Producer.Close(ctx))
	}
	if r.Reader != nil {
		r.Reader.Close()
	}
	if len(r.o.Brokers) > 0 && r.Kafka.Prefix != "" {
		faults = append(faults, admin.DeleteTopics(ctx, r.Kafka))
	}
	if r.serving != nil {
		faults = append(faults, r.serving.Close())
	}
	return errors.Join(faults...)
}

// Loop is something that runs in the background.
type Loop struct {
	Ended  chan error
	cancel context.CancelFunc
}

// Go starts one.
func Go(ctx context.Context, run func(context.Context) error) *Loop {
	l := &Loop{Ended: make(chan error, 1)}
	ctx, l.cancel = context.WithCancel(ctx)
	go func() { l.Ended <- run(ctx) }()
	return l
}

// Stop ends it and waits for it.
func (l *Loop) Stop() error {
	l.cancel()
	return <-l.Ended
}

// Detector is the production loop with the production task.
type Detector struct {
	*Loop
	*processor.Processor
	rig     *Rig
	metrics *detector.Metrics
}

// Detector starts one. wrap, if not nil, is put around every partition's task.
func (r *Rig) Detector(ctx context.Context, s liveness.Settings, wrap func(processor.Task) processor.Task) *Detector {
	d := &Detector{rig: r, metrics: detector.NewMetrics(prometheus.NewRegistry())}
	config := detector.Config{Settings: s, Log: slog.New(slog.DiscardHandler), Metrics: d.metrics, Now: time.Now}
	task := func(partition int32) processor.Task {
		t := processor.Task(detector.NewPartition(config, partition))
		if wrap != nil {
			t = wrap(t)
		}
		return t
	}
	d.Processor = processor.New(r.Kafka, r.Kafka.Prefix+"detector", schemas.Heartbeats, task, r.Producer, r.Log, nil)
	d.Loop = Go(ctx, d.Run)
	return d
}

// Handled is how many records of all partitions have been handled, of those that the log ever had.
func (d *Detector) Handled() (n int64) {
	for _, p := range d.Status() {
		if p.Phase == kafka.Running {
			n += p.Offset
		}
	}
	return n
}

// AllRun tells whether all partitions run.
func (d *Detector) AllRun() bool {
	running := 0
	for _, p := range d.Status() {
		if p.Phase == kafka.Running {
			running++
		}
	}
	return running == int(d.rig.o.Partitions)
}

// Assigned waits until all partitions run.
func (d *Detector) Assigned(ctx context.Context) error {
	return d.rig.o.Until(ctx, func() string { return "waiting for the detector to get its partitions" }, d.AllRun)
}

// Gather makes everybody online and returns when the detector has committed to it.
func (d *Detector) Gather(ctx context.Context, frames []schemas.Outgoing) error {
	if err := d.Assigned(ctx); err != nil {
		return err
	}
	if err := d.rig.Write(ctx, frames); err != nil {
		return err
	}
	end, err := d.rig.End(ctx)
	if err != nil {
		return err
	}
	return d.rig.o.Until(ctx, func() string { return fmt.Sprintf("everybody comes online: %d of %d frames", d.Handled(), end) },
		func() bool { return d.Handled() >= end })
}

// End is how many records the heartbeats topic ever had.
func (r *Rig) End(ctx context.Context) (n int64, err error) {
	for p := range r.o.Partitions {
		_, end, err := r.Reader.Bounds(ctx, schemas.Heartbeats, p)
		if err != nil {
			return 0, err
		}
		n += end
	}
	return n, nil
}

// window is how many records may be unacknowledged.
const window = 1000

// Write appends records and waits until Kafka has them all.
func (r *Rig) Write(ctx context.Context, outs []schemas.Outgoing) error {
	var wait sync.WaitGroup
	var failed error
	var once sync.Once
	free := make(chan struct{}, window)
	for i := range outs {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		wait.Add(1)
		r.Producer.Append(ctx, outs[i], func(err error) {
			if err != nil {
				once.Do(func() { failed = fmt.Errorf("writing to Kafka: %w", err) })
			}
			<-free
			wait.Done()
		})
		r.o.Progress.Say("  writing to Kafka: %d of %d records", i, len(outs))
	}
	wait.Wait()
	return failed
}

// Roles are all roles, in this process, with the production wiring.
type Roles struct {
	API     API
	SQLite  string // the file of the durable store
	admin   API
	dir     string
	running *Loop
	asked   time.Time
}

// AllRoles starts all roles, with settings that change, if not nil, has changed. It refuses a
// cluster on which a Stillhere lives: the roles' consumer groups have fixed names.
func (r *Rig) AllRoles(ctx context.Context, change func(*app.Config)) (roles *Roles, err error) {
	if len(r.o.Brokers) > 0 {
		asking, cancel := context.WithTimeout(ctx, setUp)
		defer cancel()
		if _, err := admin.CheckTopics(asking, kafka.Config{Brokers: r.o.Brokers}); err == nil {
			return nil, fmt.Errorf("there is a Stillhere on the Kafka at %v (it has topics that begin with %q), whose consumer groups this bench would join: choose another cluster",
				r.o.Brokers, schemas.DefaultPrefix)
		}
	}
	roles = &Roles{}
	if roles.dir, err = os.MkdirTemp("", "stillhere-bench-"); err != nil {
		return nil, fmt.Errorf("making a folder for the store: %w", err)
	}
	roles.SQLite = filepath.Join(roles.dir, "bench.db")
	config := app.Defaults()
	config.Instance = "bench"
	config.Kafka, config.Redis.Addr = r.Kafka, r.Redis
	config.Store = app.Store{SQLite: roles.SQLite}
	if config.Listen, err = FreeAddress(); err == nil {
		config.Admin, err = FreeAddress()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(roles.dir))
	}
	if change != nil {
		change(&config)
	}
	roles.API, roles.admin = API("http://"+config.Listen), API("http://"+config.Admin)
	started := make(chan struct{})
	roles.running = Go(ctx, func(ctx context.Context) error {
		log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
		return app.Run(ctx, "all", config, log, func() { close(started) })
	})
	select {
	case <-started:
		return roles, nil
	case err := <-roles.running.Ended:
		return nil, errors.Join(err, os.RemoveAll(roles.dir))
	case <-time.After(Timeout):
		return nil, errors.Join(errors.New("the roles did not become ready"), roles.Close())
	}
}

// Close ends them and deletes the store.
func (r *Roles) Close() error { return errors.Join(r.running.Stop(), os.RemoveAll(r.dir)) }

// CaughtUp tells whether everything is ready and the stores of last seen have every transition.
// Being ready is less: it forgives a few seconds of lag.
func (r *Roles) CaughtUp(ctx context.Context) bool {
	if time.Since(r.asked) < 100*time.Millisecond {
		return false
	}
	r.asked = time.Now()
	var report struct {
		Groups []struct {
			Group      string `json:"group"`
			Partitions []struct {
				Lag int64 `json:"lag_records"`
			} `json:"partitions"`
		} `json:"groups"`
	}
	if r.admin.Get(ctx, "/readyz?verbose", &report) != nil {
		return false
	}
	stores := 0
	for _, g := range report.Groups {
		if !strings.Contains(g.Group, "lastseen") {
			continue
		}
		stores++
		for _, p := range g.Partitions {
			if p.Lag > 0 {
				return false
			}
		}
	}
	return stores > 0
}

// FreeAddress is one that nobody listens on now.
func FreeAddress() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// gateway is a Go program's gateway, connected.
func (r *Rig) gateway(ctx context.Context) (*gateway.Gateway, func() error, error) {
	g, err := gateway.Dial(ctx, gateway.Config{Kafka: api.Kafka{Brokers: r.Kafka.Brokers, TopicPrefix: r.Kafka.Prefix}, ID: "bench",
		ForgetAfter: time.Hour, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	return g, func() error {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), setUp)
		defer cancel()
		return g.Close(closing)
	}, nil
}

// Stay are settings under which nobody leaves while frames are being written: those of the
// design but for longer limits, which cost the same.
func Stay() liveness.Settings {
	s := liveness.Defaults()
	s.OnlineTTL, s.AwayTTL, s.IdleAfter = 10*time.Minute, 20*time.Minute, time.Hour
	return s
}
