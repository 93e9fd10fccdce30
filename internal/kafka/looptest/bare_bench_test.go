package looptest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// BenchmarkBareTransaction is what a broker takes for the least that a detector can ask
// of it: one record is read, two are written, and all is committed in one transaction
// that a reader of committed records waits for. Nothing of ours is in it but the
// settings. A record comes every 20 ms, as in `stillhere bench pipeline`; the
// next transaction begins when there is one to be read.
func BenchmarkBareTransaction(b *testing.B) {
	brokers := os.Getenv("STILLHERE_TEST_KAFKA")
	if brokers == "" {
		b.Skip("STILLHERE_TEST_KAFKA is not set")
	}
	name := fmt.Sprintf("bare-%d", time.Now().UnixMilli())
	in, out, status := name+".in", name+".out", name+".status"
	client := func(options ...kgo.Opt) *kgo.Client {
		c := must.Get(kgo.NewClient(append(options, bareOptions(brokers)...)...))(b)
		b.Cleanup(c.CloseAllowingRebalance)
		return c
	}
	producer := client(kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	admin := kadm.NewClient(producer)
	must.Get(admin.CreateTopics(b.Context(), 4, -1, nil, in, out, status))(b)
	b.Cleanup(func() { _, _ = admin.DeleteTopics(context.Background(), in, out, status) })
	session, err := kgo.NewGroupTransactSession(append(bareOptions(brokers), kgo.ConsumerGroup(name), kgo.TransactionalID(name), kgo.ConsumeTopics(in),
		kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	must.Do(b, err)
	b.Cleanup(session.Close)
	reader := client(kgo.ConsumeTopics(out), kgo.FetchIsolationLevel(kgo.ReadCommitted()))

	running, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- bareCopies(running, session, out, status) }()
	var transactions, late []time.Duration
	seen := make(chan *kgo.Record, 1000)
	readerEnded := make(chan struct{})
	go func() {
		defer close(readerEnded)
		for running.Err() == nil {
			reader.PollFetches(running).EachRecord(func(r *kgo.Record) { seen <- r })
		}
	}()
	send := func(n int) {
		stamp := must.Get(time.Now().MarshalBinary())(b)
		producer.Produce(b.Context(), &kgo.Record{Topic: in, Partition: int32(n % 4), Value: stamp}, nil)
	}
	take := func() time.Duration {
		r := <-seen
		now := time.Now()
		var sent time.Time
		must.Do(b, sent.UnmarshalBinary(r.Value))
		return now.Sub(sent)
	}
	for n := range 200 { // one after the other: the broker warms up
		send(n)
		transactions = append(transactions, take())
	}
	transactions = transactions[100:]
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for n := 0; b.Loop(); n++ {
		<-ticker.C // a benchmark may
		send(n)
		for len(seen) > 0 {
			late = append(late, take())
		}
	}
	for len(late) < b.N {
		late = append(late, take())
	}
	stop()
	must.Do(b, <-ended)
	<-readerEnded
	for _, of := range []struct {
		name  string
		times []time.Duration
	}{{"alone", transactions}, {"every-20ms", late}} {
		slices.Sort(of.times)
		b.ReportMetric(float64(of.times[len(of.times)/2].Microseconds())/1000, of.name+"-p50-ms")
		b.ReportMetric(float64(of.times[len(of.times)*99/100].Microseconds())/1000, of.name+"-p99-ms")
	}
}

func bareOptions(brokers string) []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(strings.Split(brokers, ",")...), kgo.DisableClientMetrics(), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.MetadataMinAge(250 * time.Millisecond)}
}

// bareCopies reads, writes and commits until ctx ends.
func bareCopies(ctx context.Context, session *kgo.GroupTransactSession, to ...string) error {
	for {
		fetches := session.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		if err := session.Begin(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			for _, topic := range to {
				session.Produce(ctx, &kgo.Record{Topic: topic, Partition: r.Partition, Value: r.Value}, nil)
			}
		})
		if _, err := session.End(context.WithoutCancel(ctx), kgo.TryCommit); err != nil {
			return err
		}
	}
}
