//go:build synctests

package looptest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// world is a cluster in virtual time with a producer; everything in it ends with
// the test.
type world struct {
	*testing.T
	kafka    *embedded.Kafka // nil where the cluster is a real one
	cfg      kafka.Config
	producer *kafka.Producer
	log      *slog.Logger
	metrics  *kafka.Metrics
	registry *prometheus.Registry

	again bool // records of transactions that hung come again

	ends []func() // what to do at the end, last first, while the cluster lives

	mu    sync.Mutex
	tasks map[string][]*copier // by instance and partition, in order of making
}

// realLimit is how long a test may take in real time: virtual time that stands
// still would otherwise look like a test that hangs.
const realLimit = 3 * time.Minute

// inWorld runs test in a bubble whose clock shows 2026.
func inWorld(t *testing.T, partitions int32, test func(w *world)) {
	t.Helper()
	inCluster(t, 1, partitions, test)
}

// inCluster is inWorld with several brokers.
func inCluster(t *testing.T, brokers int, partitions int32, test func(w *world)) {
	t.Helper()
	t.Parallel()
	limit := time.AfterFunc(realLimit, func() { panic(t.Name() + " takes too long in real time") })
	defer limit.Stop()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)))
		network := new(kfake.VirtualNetwork)
		broker := must.Get(embedded.StartKafka(embedded.KafkaConfig{Virtual: network, Brokers: brokers}))(t)
		t.Cleanup(broker.Close)
		newWorld(t, broker, kafka.Config{Brokers: broker.Addrs(), Dialer: broker.Dialer()}).run(partitions, test)
	})
}

func newWorld(t *testing.T, broker *embedded.Kafka, cfg kafka.Config) *world {
	level := slog.LevelError + 4
	if os.Getenv("STILLHERE_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	w := &world{T: t, kafka: broker, cfg: cfg, tasks: map[string][]*copier{}, registry: prometheus.NewRegistry(),
		log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("test", t.Name())}
	w.metrics = kafka.NewMetrics(w.registry)
	return w
}

func (w *world) run(partitions int32, test func(w *world)) {
	must.Get(admin.ApplyTopics(w.Context(), w.cfg, partitions, 1))(w)
	w.producer = kafkatest.Producer(w, w.cfg)
	defer func() {
		for _, end := range slices.Backward(w.ends) {
			end()
		}
	}()
	test(w)
}

// member starts a transform under an instance name; stop ends it and waits.
func (w *world) member(name string) (stop func() error, p *processor.Processor) {
	return w.memberWith(name, w.cfg)
}

func (w *world) memberWith(name string, cfg kafka.Config) (stop func() error, p *processor.Processor) {
	return w.memberOf(name, cfg, func(c *copier) processor.Task { return c })
}

// memberOf is memberWith whose tasks do something else with their copiers.
func (w *world) memberOf(name string, cfg kafka.Config, task func(c *copier) processor.Task) (stop func() error, p *processor.Processor) {
	cfg.InstanceName = name
	p = w.transform(cfg, task)
	return w.runs("member "+name, p.Run), p
}

// joined is member once it has so many partitions and is ready.
func (w *world) joined(name string, partitions int) (stop func() error, p *processor.Processor) {
	w.Helper()
	stop, p = w.member(name)
	w.has("ready", p, partitions)
	return stop, p
}

// has waits until a member or a follower has so many partitions and is ready.
func (w *world) has(what string, of interface {
	Ready() error
	Status() []kafka.PartitionStatus
}, partitions int) {
	w.Helper()
	w.until(what, 30*time.Second, func() bool { return of.Ready() == nil && len(of.Status()) == partitions })
}

// transform is one that does not run yet.
func (w *world) transform(cfg kafka.Config, task func(c *copier) processor.Task) *processor.Processor {
	return processor.New(cfg, "detector", schemas.Heartbeats, func(partition int32) processor.Task {
		c := &copier{partition: partition, counts: map[string]int{}}
		w.mu.Lock()
		key := cfg.InstanceName + "/" + strconv.Itoa(int(partition))
		w.tasks[key] = append(w.tasks[key], c)
		w.mu.Unlock()
		return task(c)
	}, w.producer, w.log.With("member", cfg.InstanceName), w.metrics).Writes(schemas.Transitions, schemas.Statuses)
}

// runs runs a member or a follower until stop or the world's end.
func (w *world) runs(what string, run func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	w.ends = append(w.ends, func() {
		if err := stop(); err != nil {
			w.Errorf("%s: %v", what, err)
		}
	})
	return stop
}

// answers shows requests of a kind to handle and sends what it returns, if it is not nil, in place of the brokers' answer.
func (w *world) answers(key kmsg.Key, handle func(kmsg.Request) kmsg.Response) {
	w.kafka.Cluster().ControlKey(int16(key), func(request kmsg.Request) (kmsg.Response, error, bool) {
		w.kafka.Cluster().KeepControl()
		response := handle(request)
		return response, nil, response != nil
	})
}

// beat appends a record with that key to its partition.
func (w *world) beat(partition int32, key string) {
	w.Helper()
	err := w.producer.AppendSync(w.Context(), schemas.Outgoing{Topic: schemas.Heartbeats, Partition: partition, Key: []byte(key), Value: []byte("beat")})
	must.Do(w, err)
}

// until waits, in virtual time, for what must become true. It looks less often the longer it
// waits, because a look at the topics takes real time.
func (w *world) until(what string, limit time.Duration, true func() bool) {
	w.Helper()
	for start := time.Now(); !true(); time.Sleep(max(20*time.Millisecond, time.Since(start)/100)) {
		if time.Since(start) > limit {
			w.Fatalf("after %s still not: %s", limit, what)
		}
	}
}

// read gives all committed records of a topic, by partition.
func (w *world) read(topic schemas.Topic) []schemas.Record {
	w.Helper()
	r := must.Get(kafka.NewReader(w.cfg, w.log))(w)
	defer r.Close() // until reads again and again
	n := must.Get(r.Partitions(w.Context(), topic))(w)
	var all []schemas.Record
	for p := range n {
		err := r.Read(w.Context(), topic, p, -1, -1, topic != schemas.Heartbeats, func(rec *schemas.Record) error {
			copied := *rec
			copied.Headers = append([]schemas.Header(nil), rec.Headers...)
			all = append(all, copied)
			return nil
		})
		must.Do(w, err)
	}
	return all
}

// counts checks that the copies of every key count 1, 2, 3 ... and gives the
// last of each.
func (w *world) counts() map[string]int {
	w.Helper()
	last := map[string]int{}
	for _, r := range w.read(schemas.Transitions) {
		n := int(binary.BigEndian.Uint64(r.Value))
		if w.again && n <= last[string(r.Key)] {
			continue
		}
		if n != last[string(r.Key)]+1 {
			w.Fatalf("copy %d of %s comes after copy %d (partition %d offset %d)", n, r.Key, last[string(r.Key)], r.Partition, r.Offset)
		}
		last[string(r.Key)] = n
	}
	return last
}

// metric is the value of a counter of the group; labels come in pairs.
func (w *world) metric(name string, labels ...string) int {
	w.Helper()
	of := map[string]string{"group": "detector"}
	for i := 0; i < len(labels); i += 2 {
		of[labels[i]] = labels[i+1]
	}
	n, _ := w.series("stillhere_stream_"+name, of)
	return int(n)
}

// noRestarts checks that no session had to be thrown away.
func (w *world) noRestarts() {
	w.Helper()
	for _, reason := range []string{"aborted", "begin", "abort", "commit", "fenced", "fetch", "forward", "log_cut", "lost", "other", "produce", "rebalance", "restore", "stall", "start", "task"} {
		if n := w.metric("session_restarts_total", "reason", reason); n != 0 {
			w.Errorf("%d sessions were thrown away for %q", n, reason)
		}
	}
}

func (w *world) made(name string, partition int) []*copier {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tasks[name+"/"+strconv.Itoa(partition)]
}

// copier is a task that writes, for every record with a key, how many of that
// key it has seen: to the transitions as an event, to the status as its state.
// It fails, hangs or rejects on request, by key.
type copier struct {
	partition int32
	counts    map[string]int
	commit    stream.Assignment
	restored  int // status records
	replayed  int // heartbeats
	logTime   schemas.Millis
	next      int64

	mu    sync.Mutex
	ticks int
	first int64 // offset handled first, -1 before
}

func (c *copier) Restore(ctx context.Context, at stream.Assignment, read stream.ReadFunc) error {
	c.commit, c.next, c.first = at, at.Offset, -1
	err := read(ctx, schemas.Statuses, -1, -1, func(r *schemas.Record) error {
		c.restored++
		c.counts[string(r.Key)] = int(binary.BigEndian.Uint64(r.Value))
		return nil
	})
	if err != nil || at.Offset < 0 {
		return err
	}
	checkpoint, err := schemas.DecodeCheckpoint(at.Metadata)
	if err != nil {
		return err
	}
	c.logTime = checkpoint.LogTime
	return read(ctx, schemas.Heartbeats, checkpoint.Snapshot.Next, at.Offset, func(r *schemas.Record) error {
		if r.Offset >= at.Offset {
			return errors.New("a record behind the commit was replayed")
		}
		c.replayed++
		return nil
	})
}

func (c *copier) Handle(r *schemas.Record, out *stream.Outbox) error {
	c.mu.Lock()
	if c.first < 0 {
		c.first = r.Offset
	}
	if r.Key == nil {
		c.ticks++
	}
	c.mu.Unlock()
	c.logTime = max(c.logTime, r.Time)
	c.next = r.Offset + 1
	key := string(r.Key)
	switch key {
	case "":
		return nil
	case "bad":
		out.Rejected = append(out.Rejected, stream.Rejected{Record: r, Reason: &schemas.FieldError{Code: "malformed", Field: "frame", Reason: "is bad"}})
		return nil
	case "error":
		return errors.New("this task cannot go on")
	case "panic":
		panic("this task is broken")
	case "forward":
		out.Forwards = append(out.Forwards, schemas.Outgoing{Topic: schemas.Heartbeats, Partition: 1, Key: []byte("forwarded"), Value: []byte("beat")})
		return nil
	}
	c.counts[key]++
	value := binary.BigEndian.AppendUint64(nil, uint64(c.counts[key]))
	out.Records = append(out.Records,
		schemas.Outgoing{Topic: schemas.Transitions, Partition: c.partition, Key: []byte(key), Value: value},
		schemas.Outgoing{Topic: schemas.Statuses, Partition: c.partition, Key: []byte(key), Value: value})
	return nil
}

func (c *copier) Checkpoint() string {
	return (&schemas.Checkpoint{LogEpoch: 1, LogTime: c.logTime, TopicID: c.commit.TopicID, Snapshot: schemas.SnapshotName{Next: max(c.next-5, 0)}}).Encode()
}

func (c *copier) seen() (ticks int, first int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ticks, c.first
}

// committed is what the detector's group has committed of the heartbeats.
func (w *world) committed() (map[int32]kafka.CommittedOffset, error) {
	return kafka.Committed(w.Context(), w.cfg, "detector", schemas.Heartbeats)
}

// commits is what is committed of one partition; -1: nothing.
func (w *world) commits(partition int32) (int64, *schemas.Checkpoint) {
	w.Helper()
	c, ok := must.Get(w.committed())(w)[partition]
	if !ok {
		return -1, nil
	}
	checkpoint, err := schemas.DecodeCheckpoint(c.Metadata)
	if err != nil {
		w.Fatal(fmt.Errorf("partition %d offset %d: %w", partition, c.Offset, err))
	}
	return c.Offset, checkpoint
}

// transactional is a client that writes a record in a transaction and ends that as it is told.
func (w *world) transactional(id string) func(topic schemas.Topic, key string, end kgo.TransactionEndTry) {
	w.Helper()
	client := must.Get(kafka.NewClient(w.cfg.WithDefaults(), w.log,
		kgo.TransactionalID(w.cfg.GroupName(id)), kgo.RecordPartitioner(kgo.ManualPartitioner())))(w)
	w.ends = append(w.ends, client.Close)
	return func(topic schemas.Topic, key string, end kgo.TransactionEndTry) {
		w.Helper()
		must.Do(w, client.BeginTransaction())
		record := &kgo.Record{Topic: w.name(topic), Key: []byte(key), Value: []byte("v")}
		must.Do(w, client.ProduceSync(w.Context(), record).FirstErr())
		must.Do(w, client.EndTransaction(w.Context(), end))
	}
}
