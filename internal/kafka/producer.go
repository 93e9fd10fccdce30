package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/singleflight"

	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/schemas"
)

// ErrBusy means that a Producer holds Config.MaxBuffered unacknowledged records.
var ErrBusy = errors.New("too many records are waiting for Kafka")

// Producer appends records outside of transactions: frames, ticks, forwards. The protocol makes
// retries idempotent, but a record that was given up after Config.DeliveryTimeout may still have
// been appended. Safe for concurrent use.
type Producer struct {
	client            *kgo.Client
	prefix            string
	valueHeaders      map[schemas.Topic][]byte // read-only
	keys              *signing.Keys
	connections       *connectionErrors
	log               *slog.Logger
	lastRefusalLogged atomic.Int64 // Unix nanoseconds of the last refusal that was logged

	forgetting sync.Map // topics that forget works on
	work       sync.WaitGroup
	pings      singleflight.Group
}

// NewProducer opens a producer without waiting for Kafka. metrics may be nil.
func NewProducer(cfg Config, log *slog.Logger, metrics *Metrics) (*Producer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("opening a producer: %w", err)
	}
	cfg = cfg.WithDefaults()
	reach := &connectionErrors{}
	client, err := NewClient(cfg, log, append(metrics.ClientHooks("producer"),
		kgo.WithHooks(reach),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		kgo.MaxBufferedRecords(cfg.MaxBuffered),
		kgo.MaxBufferedBytes(cfg.MaxBufferedBytes),
		kgo.RecordDeliveryTimeout(cfg.DeliveryTimeout),
		// Without this a record in flight to a broker that has vanished would wait for ever, and
		// its caller too. A beat may be appended twice.
		kgo.AllowIdempotentProduceCancellation(),
	)...)
	if err != nil {
		return nil, err
	}
	metrics.watchProducer(client)
	return &Producer{client: client, prefix: cfg.Prefix, valueHeaders: cfg.ValueHeaders, keys: cfg.Keys,
		connections: reach, log: log}, nil
}

// Append appends out to out.Partition without blocking. Frames are signed if the Config has Keys. It calls
// done exactly once, from another goroutine or before it returns: with nil when all replicas have the record, with ErrBusy, or
// with the reason why it was not delivered in time. done must not block, and the caller must not
// change out's bytes until then. Records of one partition are appended in the order of the calls.
// If ctx has ended before the call, nothing is appended. Its end later has no effect: cancelling
// one record would cancel all that wait for the same partition.
func (p *Producer) Append(ctx context.Context, out schemas.Outgoing, done func(error)) {
	p.AppendAt(ctx, out, func(_ int64, err error) { done(err) })
}

// AppendAt is Append, and says the offset of the record.
func (p *Producer) AppendAt(ctx context.Context, out schemas.Outgoing, done func(offset int64, err error)) {
	if err := ctx.Err(); err != nil {
		done(0, fmt.Errorf("appending to %s partition %d: %w", out.Topic.Name(p.prefix), out.Partition, err))
		return
	}
	if (out.Topic == schemas.Heartbeats || out.Topic == schemas.Gateways) && p.keys != nil {
		out.Value = p.keys.Sign(out.Value, out.Topic.Name(p.prefix), out.Partition, schemas.MillisOf(time.Now()))
	}
	record := new(kgo.Record)
	ToKafka(record, out.Topic.Name(p.prefix), p.valueHeaders[out.Topic], &out)
	p.client.TryProduce(context.Background(), record, func(r *kgo.Record, err error) {
		done(r.Offset, p.explain(r, err))
	})
}

// AppendSync appends all of outs and waits until each is acknowledged or given up, or ctx ends;
// records may still be appended after that. The error joins all faults.
func (p *Producer) AppendSync(ctx context.Context, outs ...schemas.Outgoing) error {
	results := make(chan error, len(outs))
	for i := range outs {
		p.Append(ctx, outs[i], func(err error) { results <- err })
	}
	var faults []error
	for range outs {
		select {
		case err := <-results:
			if err != nil {
				faults = append(faults, err)
			}
		case <-ctx.Done():
			return errors.Join(append(faults, fmt.Errorf("waiting for Kafka's acknowledgement: %w", ctx.Err()))...)
		}
	}
	return errors.Join(faults...)
}

// Republish appends records as they were read, except their past times, because the client counts
// its delivery timeout from a record's time. It waits until all are acknowledged.
func (p *Producer) Republish(ctx context.Context, records []*kgo.Record) error {
	p.log.Warn("publishing the records of a committed transaction that hangs again, because ending it may abort it",
		"records", len(records))
	now := time.Now()
	for _, r := range records {
		if r.Timestamp.Before(now) {
			r.Timestamp = time.Time{}
		}
	}
	if err := p.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("publishing %d records again: %w", len(records), ExplainConnection(err))
	}
	return nil
}

func (p *Producer) explain(r *kgo.Record, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kgo.ErrMaxBuffered):
		err = ErrBusy
	case errors.Is(err, kerr.UnknownTopicID):
		p.forget(r.Topic)
	case errors.Is(err, kgo.ErrRecordTimeout):
		if fault := p.connections.lastError(); fault != nil {
			err = fmt.Errorf("%w; %w", err, fault)
		}
	}
	err = fmt.Errorf("appending to %s partition %d: %w", r.Topic, r.Partition,
		ExplainConnection(WithGrantHint(err, "Write", OfTopic, r.Topic)))
	if IsUnauthorized(err) {
		p.logRefusal(err)
	}
	return err
}

// logRefusal logs a missing ACL at most every 10 s: callers only count failures.
func (p *Producer) logRefusal(err error) {
	const every = int64(10 * time.Second)
	now, last := time.Now().UnixNano(), p.lastRefusalLogged.Load()
	if now-last >= every && p.lastRefusalLogged.CompareAndSwap(last, now) {
		p.log.Error("Kafka refuses the records of this process; grant the missing ACL", "error", err)
	}
}

// forget removes a topic that was recreated from the client's cache; otherwise the client would
// refuse the new topic until the process ends. Callers that append meanwhile may have to retry.
func (p *Producer) forget(topic string) {
	if _, already := p.forgetting.LoadOrStore(topic, true); already {
		return
	}
	p.work.Go(func() { // not in the callback, because the client waits for it
		defer p.forgetting.Delete(topic)
		p.client.PurgeTopicsFromProducing(topic)
	})
}

// Partitions is how many partitions the topic has now.
func (p *Producer) Partitions(ctx context.Context, topic schemas.Topic) (int32, error) {
	return PartitionCount(ctx, p.client, topic.Name(p.prefix), "Write")
}

// Ping reports whether a broker answers. It returns when ctx ends, although the client may still
// wait for a broker that accepts a connection and does not answer.
func (p *Producer) Ping(ctx context.Context) error {
	answer := p.pings.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
		defer cancel()
		return nil, ExplainConnection(p.client.Ping(ctx))
	})
	select {
	case result := <-answer:
		return result.Err
	case <-ctx.Done():
		return fmt.Errorf("no broker answers: %w", ctx.Err())
	}
}

// pingTimeout bounds a ping of the client.
const pingTimeout = 5 * time.Second

// Close waits for unacknowledged records until ctx ends, and gives up the rest. The caller must not
// use the producer any more.
func (p *Producer) Close(ctx context.Context) error {
	err := p.client.Flush(ctx)
	p.client.Close()
	p.work.Wait()
	_, _, _ = p.pings.Do("", func() (any, error) { return nil, nil }) // waits for a ping under way
	if err != nil {
		return fmt.Errorf("delivering what was left at the end: %w", err)
	}
	return nil
}
