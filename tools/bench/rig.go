package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/detector"
	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// rig is a Kafka with topics of our own, and a producer and a reader for it.
type rig struct {
	o        *Options
	kafka    kafka.Config
	redis    string // the stand-in
	cluster  *cluster
	producer *kafka.Producer
	reader   *kafka.Reader
	log      *slog.Logger
}

// setUp bounds what is only asking Kafka for something.
const setUp = time.Minute

// newRig makes one. Its topics have names that nobody else uses.
func newRig(ctx context.Context, o *Options) (r *rig, err error) {
	r = &rig{o: o, log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
			r = nil
		}
	}()
	if r.cluster, err = startCluster(ctx, o); err != nil {
		return r, err
	}
	r.redis = r.cluster.Redis
	r.kafka = kafka.Config{Brokers: r.cluster.Kafka, InstanceName: "bench", Prefix: fmt.Sprintf("stillhere-bench-%d.", time.Now().UnixMilli())}
	if len(o.Brokers) > 0 {
		r.kafka.Brokers = o.Brokers
	}
	asking, cancel := context.WithTimeout(ctx, setUp)
	defer cancel()
	if _, err = kafka.ApplyTopics(asking, r.kafka, o.Partitions, -1); err != nil {
		return r, err
	}
	if r.producer, err = kafka.NewProducer(r.kafka, r.log, nil); err != nil {
		return r, err
	}
	r.reader, err = kafka.NewReader(r.kafka, r.log)
	return r, err
}

// close gives everything back, the topics on brokers that are not ours too.
func (r *rig) close() error {
	var faults []error
	ctx, cancel := context.WithTimeout(context.Background(), setUp)
	defer cancel()
	if r.producer != nil {
		faults = append(faults, r.producer.Close(ctx))
	}
	if r.reader != nil {
		r.reader.Close()
	}
	if len(r.o.Brokers) > 0 && r.kafka.Prefix != "" {
		faults = append(faults, kafka.DeleteTopics(ctx, r.kafka))
	}
	if r.cluster != nil {
		faults = append(faults, r.cluster.close())
	}
	return errors.Join(faults...)
}

// loop is something that runs in the background.
type loop struct {
	cancel context.CancelFunc
	ended  chan error
}

func start(ctx context.Context, run func(context.Context) error) *loop {
	l := &loop{ended: make(chan error, 1)}
	ctx, l.cancel = context.WithCancel(ctx)
	go func() { l.ended <- run(ctx) }()
	return l
}

// stop ends it and waits for it.
func (l *loop) stop() error {
	l.cancel()
	return <-l.ended
}

// runningDetector is the production loop with the production task.
type runningDetector struct {
	*loop
	*kafka.Transform
	metrics *detector.Metrics
}

// detector starts one. wrap, if not nil, is put around every partition's task.
func (r *rig) detector(ctx context.Context, s liveness.Settings, wrap func(kafka.Task) kafka.Task) *runningDetector {
	d := &runningDetector{metrics: detector.NewMetrics(prometheus.NewRegistry())}
	config := detector.Config{Settings: s, Log: slog.New(slog.DiscardHandler), Metrics: d.metrics, Now: time.Now}
	task := func(partition int32) kafka.Task {
		t := kafka.Task(detector.NewPartition(config, partition))
		if wrap != nil {
			t = wrap(t)
		}
		return t
	}
	d.Transform = kafka.NewTransform(r.kafka, r.kafka.Prefix+"detector", schemas.Heartbeats, task, r.producer, r.log, nil)
	d.loop = start(ctx, d.Run)
	return d
}

// handled is how many records of all partitions have been handled, of those that
// the log ever had.
func (d *runningDetector) handled() int64 {
	var n int64
	for _, p := range d.Status() {
		if p.Phase == kafka.Running {
			n += p.Offset
		}
	}
	return n
}

// end is how many records the heartbeats topic ever had.
func (r *rig) end(ctx context.Context) (int64, error) {
	var n int64
	for p := range r.o.Partitions {
		_, end, err := r.reader.Bounds(ctx, schemas.Heartbeats, p)
		if err != nil {
			return 0, err
		}
		n += end
	}
	return n, nil
}

// patience is how long a bench waits for anything.
const patience = 3 * time.Minute

// until waits for something to become true, looking every millisecond. what says
// in the error and while waiting what that is.
func (o *Options) until(ctx context.Context, what func() string, done func() bool) error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
			o.Progress.Say("  %s", what())
		case <-deadline.C:
			return fmt.Errorf("gave up after %s: %s", patience, what())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
