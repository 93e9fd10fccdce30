package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/schemas"
)

// Reader reads ranges of partitions, outside of any group. Any goroutine may use
// it, and several at the same time.
//
// It asks the broker itself rather than through a consumer, because only the raw
// answer tells how far one has read where the last records are markers or were
// aborted or compacted away.
type Reader struct {
	client       *kgo.Client
	prefix       string
	decompressor kgo.Decompressor
	log          *slog.Logger
	oversized    atomic.Int64
}

// NewReader opens a reader. It does not wait for Kafka to answer.
func NewReader(cfg Config, log *slog.Logger) (*Reader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("opening a reader: %w", err)
	}
	cfg = cfg.withDefaults()
	client, err := newClient(cfg, log, kgo.MaxDecompressBatchBytes(cfg.MaxBatchBytes))
	if err != nil {
		return nil, err
	}
	// The client's own decompressor is the one that heeds the bound.
	decompressor, ok := client.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	if !ok {
		decompressor = kgo.DefaultDecompressor()
	}
	return &Reader{client: client, prefix: cfg.Prefix, decompressor: decompressor, log: log}, nil
}

// Close ends the reader's connections.
func (r *Reader) Close() { r.client.Close() }

// Partitions is how many partitions the topic has now.
func (r *Reader) Partitions(ctx context.Context, topic schemas.Topic) (int32, error) {
	return partitionCount(ctx, r.client, topic.Name(r.prefix), "Read")
}

// Count is Partitions for who need not be allowed to read the topic, but to describe it.
func (r *Reader) Count(ctx context.Context, topic schemas.Topic) (int32, error) {
	return partitionCount(ctx, r.client, topic.Name(r.prefix), "Describe")
}

// TopicID is the id of the topic that has the name now.
func (r *Reader) TopicID(ctx context.Context, topic schemas.Topic) (schemas.TopicID, error) {
	meta, err := describe(ctx, r.client, topic.Name(r.prefix), "Read")
	return meta.id, err
}

// Bounds are the first offset of the partition and the one after the last,
// transactions that are still open included.
func (r *Reader) Bounds(ctx context.Context, topic schemas.Topic, partition int32) (start, end int64, err error) {
	return r.boundsOf(ctx, topic.Name(r.prefix), partition)
}

func (r *Reader) boundsOf(ctx context.Context, name string, partition int32) (start, end int64, err error) {
	if start, err = listOffset(ctx, r.client, name, partition, atStart); err != nil {
		return 0, 0, err
	}
	end, err = listOffset(ctx, r.client, name, partition, atEnd)
	return start, max(start, end), err
}

// look is how a partition is now, but for what is committed of it.
func (r *Reader) look(ctx context.Context, topic schemas.Topic, partition int32) (schemas.Commit, error) {
	at := schemas.Commit{Partition: partition, Offset: -1}
	for tries := 1; ; tries++ {
		meta, err := describe(ctx, r.client, topic.Name(r.prefix), "Read")
		if err == nil {
			at.Partitions, at.TopicID = int32(len(meta.leaders)), meta.id
			break
		}
		if !passing(err) || !pause(ctx, backoff(tries)) {
			return at, err
		}
	}
	var err error
	at.LogStart, at.LogEnd, err = r.Bounds(ctx, topic, partition)
	return at, err
}

// Read calls each for the records of a partition from offset from (-1: the first
// there is) up to but without offset to (-1: the end as it is now), in order.
// committed leaves out what was aborted, and waits for transactions that are
// open: what an answer to a commit has promised may take a moment to show. The
// record and what it points to are valid until each returns. The error of each
// is returned unchanged and ends the reading; errors of Kafka that may pass are
// tried again until ctx ends.
func (r *Reader) Read(ctx context.Context, topic schemas.Topic, partition int32, from, to int64, committed bool,
	each func(*schemas.Record) error) error {
	start, end, err := r.Bounds(ctx, topic, partition)
	if err != nil {
		return err
	}
	if from < start {
		from = start
	}
	if to < 0 || to > end {
		to = end
	}
	read := rangeRead{Reader: r, name: topic.Name(r.prefix), partition: partition, next: from, to: to, isolation: kgo.ReadUncommitted()}
	if committed {
		read.isolation, read.level = kgo.ReadCommitted(), 1
	}
	return read.run(ctx, each)
}

// rangeRead is one Read under way.
type rangeRead struct {
	*Reader
	name      string
	partition int32
	next, to  int64
	isolation kgo.IsolationLevel
	level     int8
	whole     bool // nothing may be missing
	raw       func(*kgo.Record)

	topicID [16]byte
	leader  int32
	located bool
}

func (r *rangeRead) run(ctx context.Context, each func(*schemas.Record) error) error {
	var record schemas.Record
	var headers []schemas.Header
	held := heldUp{since: time.Now()}
	for tries := 0; r.next < r.to; {
		fetched, next, err := r.fetch(ctx)
		if err == nil {
			tries = 0
			held.tell(r, next, fetched.LastStableOffset)
			for _, from := range fetched.Records {
				if from.Offset < r.next || from.Offset >= r.to {
					continue
				}
				if r.raw != nil {
					r.raw(from)
					continue
				}
				headers = fill(&record, from, headers)
				if err := each(&record); err != nil {
					return err
				}
			}
			r.next = max(r.next, next)
			continue
		}
		if ctx.Err() != nil || !passing(err) {
			return fmt.Errorf("reading %s partition %d at offset %d: %w", r.name, r.partition, r.next, errors.Join(needs(err, "Read", OfTopic, r.name), ctx.Err()))
		}
		r.located = false
		tries++
		if tries == 10 {
			r.log.Warn("reading from Kafka does not get on, still trying", "topic", r.name, "partition", r.partition, "offset", r.next, "error", err)
		}
		pause(ctx, backoff(tries))
	}
	return nil
}

// heldUp tells of a reading that waits for the end of somebody's transaction.
type heldUp struct{ since, told time.Time }

// heldUpNotice is how long a reading stands still before that is told, and told
// again: Kafka ends what a dead producer left open at its transaction timeout, which
// it looks for every 10 s.
const heldUpNotice = 10 * time.Second

func (h *heldUp) tell(r *rangeRead, next, stable int64) {
	now := time.Now()
	if next > r.next {
		if !h.told.IsZero() {
			r.log.Info("the transaction has ended, reading goes on", "topic", r.name, "partition", r.partition, "offset", next)
		}
		*h = heldUp{since: now}
		return
	}
	if now.Sub(h.since) >= heldUpNotice && now.Sub(h.told) >= heldUpNotice {
		h.told = now
		r.log.Warn("reading waits for a transaction that is still open; kafka-transactions.sh find-hanging names its producer",
			"topic", r.name, "partition", r.partition, "offset", r.next, "last stable offset", stable, "end", r.to, "waited", now.Sub(h.since).Round(time.Second))
	}
}

// fetch asks once and tells where to go on.
func (r *rangeRead) fetch(ctx context.Context) (kgo.FetchPartition, int64, error) {
	none := kgo.FetchPartition{}
	if !r.located {
		meta, err := describe(ctx, r.client, r.name, "Read")
		if err != nil {
			return none, 0, err
		}
		if int(r.partition) >= len(meta.leaders) {
			return none, 0, kerr.UnknownTopicOrPartition
		}
		r.topicID, r.leader, r.located = meta.id, meta.leaders[r.partition], true
	}
	response, err := r.client.Broker(int(r.leader)).RetriableRequest(ctx, r.request())
	if err != nil {
		return none, 0, err
	}
	answer := response.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return none, 0, err
	}
	for i := range answer.Topics {
		for j := range answer.Topics[i].Partitions {
			part := &answer.Topics[i].Partitions[j]
			if part.Partition != r.partition {
				continue
			}
			return r.parse(part)
		}
	}
	return none, 0, errNoAnswer
}

var errNoAnswer = errors.New("the answer leaves out the partition that was asked for")

func (r *rangeRead) request() *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.MaxWaitMillis = 500
	request.MinBytes = 1
	request.MaxBytes = fetchMaxBytes
	request.IsolationLevel = r.level
	request.SessionEpoch = -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = r.name, r.topicID
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition = r.partition
	part.FetchOffset = r.next
	part.PartitionMaxBytes = 4 * fetchPartitionMax
	topic.Partitions = append(topic.Partitions, part)
	request.Topics = append(request.Topics, topic)
	return request
}

func (r *rangeRead) parse(part *kmsg.FetchResponseTopicPartition) (kgo.FetchPartition, int64, error) {
	fetched, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: r.next, IsolationLevel: r.isolation, Topic: r.name, Partition: r.partition,
	}, part, r.decompressor, nil)
	var tooLarge *kgo.ErrDecompressTooLarge
	if errors.As(fetched.Err, &tooLarge) {
		r.log.Error("a batch is too large to be read and is skipped", "topic", r.name, "partition", r.partition,
			"offset", tooLarge.Offset, "next", tooLarge.NextOffset)
		r.oversized.Add(1)
		return fetched, max(next, tooLarge.NextOffset), nil
	}
	if errors.Is(fetched.Err, kerr.OffsetOutOfRange) && r.next < fetched.LogStartOffset {
		// Retention went on while we read: what is gone is gone.
		if r.whole {
			return fetched, 0, ErrOvertaken
		}
		return kgo.FetchPartition{}, fetched.LogStartOffset, nil
	}
	return fetched, next, fetched.Err
}

// passing tells whether trying again may help.
func passing(err error) bool {
	var code *kerr.Error
	if errors.As(err, &code) {
		return code.Retriable
	}
	return !errors.Is(err, ErrOvertaken) && !errors.Is(err, kgo.ErrClientClosed) && !errors.Is(err, context.Canceled)
}
