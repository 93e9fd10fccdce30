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

	"github.com/stillhere/stillhere/schemas"
)

// ErrBusy says that a Producer holds as many unacknowledged records as it may.
var ErrBusy = errors.New("too many records are waiting for Kafka")

// Producer appends records outside of transactions: frames, ticks, forwards.
// Retries are made idempotent by the protocol, with one exception: a record that
// was given up after Config.DeliveryTimeout may have been appended all the same.
// Any goroutine may use it.
type Producer struct {
	client            *kgo.Client
	prefix            string
	valueHeaders      map[schemas.Topic][]byte // nobody changes it
	connections       *connectionErrors
	log               *slog.Logger
	lastRefusalLogged atomic.Int64 // Unix nanoseconds of the last refusal that was logged

	forgetting sync.Map // topic → whatever, while the client is made to forget it
	work       sync.WaitGroup

	pingMu sync.Mutex
	asked  *ping // under way, if any
}

// NewProducer opens a producer. It does not wait for Kafka to answer. metrics
// may be nil.
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
		// Without this a record in flight to a broker that vanished would wait for
		// ever, and so would the caller whose beat it is. Beats bear doubling.
		kgo.AllowIdempotentProduceCancellation(),
	)...)
	if err != nil {
		return nil, err
	}
	metrics.watchProducer(client)
	return &Producer{client: client, prefix: cfg.Prefix, valueHeaders: cfg.ValueHeaders, connections: reach, log: log}, nil
}

// Append appends out to out.Partition. It does not block: done is called exactly
// once, from another goroutine or before Append returns, with nil when all
// replicas have the record, ErrBusy when too much is waiting, or why it was not
// delivered in time. done must not block. out's bytes must stay unchanged until
// then. Records of one partition are appended in the order of the calls. When
// ctx has ended before the call, nothing is appended; ending it later changes
// nothing, because taking back one record would take back all that wait for the
// same partition.
func (p *Producer) Append(ctx context.Context, out schemas.Outgoing, done func(error)) {
	if err := ctx.Err(); err != nil {
		done(fmt.Errorf("appending to %s partition %d: %w", out.Topic.Name(p.prefix), out.Partition, err))
		return
	}
	record := new(kgo.Record)
	ToKafka(record, out.Topic.Name(p.prefix), p.valueHeaders[out.Topic], &out)
	p.client.TryProduce(context.Background(), record, func(r *kgo.Record, err error) {
		done(p.explain(r, err))
	})
}

// AppendSync appends all of outs and waits until each is acknowledged or given
// up, or ctx ends; they may be appended after that. The error joins what went
// wrong.
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

// Republish appends records as they were read, but for times that are over: the client
// takes a record's time for the instant from which it may try. It waits until all are acknowledged.
func (p *Producer) Republish(ctx context.Context, records []*kgo.Record) error {
	p.log.Warn("publishing the records of a committed transaction that hangs again, because ending it may abort it", "records", len(records))
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
	err = fmt.Errorf("appending to %s partition %d: %w", r.Topic, r.Partition, ExplainConnection(WithGrantHint(err, "Write", OfTopic, r.Topic)))
	if IsUnauthorized(err) {
		p.logRefusal(err)
	}
	return err
}

// logRefusal logs now and then that Kafka lets us not write: those who append, to whom a
// failure may be one of many, count them at most.
func (p *Producer) logRefusal(err error) {
	const every = int64(10 * time.Second)
	now, last := time.Now().UnixNano(), p.lastRefusalLogged.Load()
	if now-last >= every && p.lastRefusalLogged.CompareAndSwap(last, now) {
		p.log.Error("Kafka refuses what this process writes", "error", err)
	}
}

// forget makes the client forget a topic that was deleted and made anew; by itself
// it would refuse the new one until the process ends. Who appends meanwhile may
// have to try again.
func (p *Producer) forget(topic string) {
	if _, already := p.forgetting.LoadOrStore(topic, true); already {
		return
	}
	p.work.Go(func() { // the client waits for its callbacks
		defer p.forgetting.Delete(topic)
		p.client.PurgeTopicsFromProducing(topic)
	})
}

// Partitions is how many partitions the topic has now.
func (p *Producer) Partitions(ctx context.Context, topic schemas.Topic) (int32, error) {
	return PartitionCount(ctx, p.client, topic.Name(p.prefix), "Write")
}

// Ping tells whether some broker answers. It heeds ctx, which the client does not while it
// waits for a broker that takes a connection and then says nothing.
func (p *Producer) Ping(ctx context.Context) error {
	p.pingMu.Lock()
	asked := p.asked
	if asked == nil {
		asked = &ping{done: make(chan struct{})}
		p.asked = asked
		p.work.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
			defer cancel()
			err := ExplainConnection(p.client.Ping(ctx))
			p.pingMu.Lock()
			asked.err, p.asked = err, nil
			p.pingMu.Unlock()
			close(asked.done)
		})
	}
	p.pingMu.Unlock()
	select {
	case <-asked.done:
		return asked.err
	case <-ctx.Done():
		return fmt.Errorf("no broker answers: %w", ctx.Err())
	}
}

// ping is a question to the brokers that is under way. err may be read when done is closed.
type ping struct {
	done chan struct{}
	err  error
}

// pingTimeout bounds a question.
const pingTimeout = 5 * time.Second

// Close waits for what is still on its way, as long as ctx allows, and gives up
// the rest. Nothing may be appended any more.
func (p *Producer) Close(ctx context.Context) error {
	err := p.client.Flush(ctx)
	p.client.Close()
	p.work.Wait()
	if err != nil {
		return fmt.Errorf("delivering what was left at the end: %w", err)
	}
	return nil
}
