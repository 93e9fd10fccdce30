package loadtest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	api "github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/gateway"
	"github.com/stillhere/stillhere/detector"
	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/follow"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/schemas"
)

// Rig is a Kafka with topics of its own, and a producer and a reader for it. Close gives
// everything back at the end of the part.
type Rig struct {
	Kafka    kafka.Config
	Redis    string // the stand-in
	Producer *kafka.Producer
	Reader   *kafka.Reader
	Log      *slog.Logger
	t        *T
}

// setUp bounds what is only asking Kafka for something.
const setUp = 5 * time.Minute // 512 partitions take a broker minutes

// Rig makes one. Its topics have names that nobody else uses.
func (t *T) Rig() *Rig {
	r := &Rig{t: t, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	serving := t.Start("serve", nil)
	t.Cleanup(serving.Close)
	var at standIns
	serving.Hear(&at)
	r.Redis = at.Redis
	r.Kafka = kafka.Config{Brokers: at.Kafka, InstanceName: "bench", Prefix: fmt.Sprintf("stillhere-bench-%d.", time.Now().UnixMilli())}
	if len(t.Brokers) > 0 {
		r.Kafka.Brokers = t.Brokers
		t.Cleanup(func() error { return soon(func(ctx context.Context) error { return admin.DeleteTopics(ctx, r.Kafka) }) })
	}
	t.Check(soon(func(ctx context.Context) error {
		_, err := admin.ApplyTopics(ctx, r.Kafka, t.Partitions, -1)
		return err
	}))
	var err error
	r.Producer, err = kafka.NewProducer(r.Kafka, r.Log, nil)
	t.Check(err)
	t.Cleanup(func() error { return soon(r.Producer.Close) })
	r.Reader, err = kafka.NewReader(r.Kafka, r.Log)
	t.Check(err)
	t.Cleanup(func() error { r.Reader.Close(); return nil })
	return r
}

// soon calls f with a bound on its time, also after the run's context has ended.
func soon(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), setUp)
	defer cancel()
	return f(ctx)
}

// Loop is something that runs in the background.
type Loop struct {
	Ended chan error
	// Stop ends it, waits for it, and returns its error. Later calls return nil.
	Stop func() error
}

// Go starts one.
func Go(ctx context.Context, run func(context.Context) error) *Loop {
	ctx, cancel := context.WithCancel(ctx)
	l := &Loop{Ended: make(chan error, 1)}
	go func() { l.Ended <- run(ctx); close(l.Ended) }()
	l.Stop = func() error { cancel(); return <-l.Ended }
	return l
}

// Go starts a loop that ends with the part at the latest.
func (t *T) Go(run func(context.Context) error) *Loop {
	l := Go(t.ctx, run)
	t.Cleanup(l.Stop)
	return l
}

// Detector is the production loop with the production task.
type Detector struct {
	*Loop
	*processor.Processor
	rig     *Rig
	metrics *detector.Metrics
}

// Detector starts one. wrap, if not nil, is put around every partition's task.
func (r *Rig) Detector(s liveness.Settings, wrap func(processor.Task) processor.Task) *Detector {
	d := &Detector{rig: r, metrics: detector.NewMetrics(prometheus.NewRegistry())}
	gateways := detector.NewGateways(r.Kafka.Keys, schemas.Gateways.Name(r.Kafka.Prefix))
	reader, err := kafka.NewReader(r.Kafka, r.Log)
	r.t.Check(err)
	r.t.Cleanup(func() error { reader.Close(); return nil })
	reader.TailRest = detector.GatewaysRest
	topic := follow.Topic{Log: reader, Logger: r.Log, Topic: schemas.Gateways,
		Failing: "the topic gateways cannot be read"}
	r.t.Go(func(ctx context.Context) error { return topic.Run(ctx, gateways.Take) })
	config := detector.Config{Settings: s, Gateways: gateways, Log: slog.New(slog.DiscardHandler),
		Metrics: d.metrics, Now: time.Now, Users: r.Kafka.Users}
	task := func(partition int32) processor.Task {
		t := processor.Task(detector.NewPartition(config, partition))
		if wrap != nil {
			t = wrap(t)
		}
		return t
	}
	d.Processor = processor.New(r.Kafka, r.Kafka.Prefix+"detector", schemas.Heartbeats, task, r.Producer, r.Log, nil)
	d.Loop = r.t.Go(d.Run)
	return d
}

// AllRun reports whether all partitions run.
func (d *Detector) AllRun() bool {
	running := 0
	for _, p := range d.Status() {
		if p.Phase == kafka.Running {
			running++
		}
	}
	return running == int(d.rig.t.Partitions)
}

// Assigned waits until all partitions run.
func (d *Detector) Assigned() {
	d.rig.t.Until(func() string { return "waiting for the detector to get its partitions" }, d.AllRun)
}

// gateway is a Go program's gateway, connected.
func (r *Rig) gateway() *gateway.Gateway {
	g, err := gateway.Dial(r.t.ctx, gateway.Config{Kafka: api.Kafka{Brokers: r.Kafka.Brokers, TopicPrefix: r.Kafka.Prefix}, ID: "bench",
		ForgetAfter: time.Hour, Log: slog.New(slog.DiscardHandler)})
	r.t.Check(err)
	r.t.Cleanup(func() error { return soon(g.Close) })
	return g
}

// Stay are settings under which nobody leaves while frames are being written: those of the
// design but for longer limits, which cost the same.
func Stay() liveness.Settings {
	s := liveness.Defaults()
	s.OnlineTTL, s.AwayTTL, s.IdleAfter = 10*time.Minute, 20*time.Minute, time.Hour
	return s
}
