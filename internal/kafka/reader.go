package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// Reader reads ranges of partitions, outside of any group. Safe for concurrent use.
//
// It sends raw fetch requests instead of using a consumer, because only the raw answer shows the
// next offset if the last records are markers, aborted or compacted away.
type Reader struct {
	Client *kgo.Client
	// TailRest [0] is how long Tail rests at the end of the log, so that records that come one by one cost few answers. It
	// is set before the first use.
	TailRest     time.Duration
	prefix       string
	decompressor kgo.Decompressor
	log          *slog.Logger
}

// NewReader opens a reader without waiting for Kafka.
func NewReader(cfg Config, log *slog.Logger) (*Reader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("opening a reader: %w", err)
	}
	cfg = cfg.WithDefaults()
	client, err := NewClient(cfg, log, kgo.MaxDecompressBatchBytes(cfg.MaxBatchBytes))
	if err != nil {
		return nil, err
	}
	// Only the client's own decompressor applies the bound.
	decompressor, ok := client.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	if !ok {
		decompressor = kgo.DefaultDecompressor()
	}
	return &Reader{Client: client, prefix: cfg.Prefix, decompressor: decompressor, log: log}, nil
}

// Close closes the reader's connections.
func (r *Reader) Close() { r.Client.Close() }

// Partitions is how many partitions the topic has now.
func (r *Reader) Partitions(ctx context.Context, topic schemas.Topic) (int32, error) {
	return PartitionCount(ctx, r.Client, topic.Name(r.prefix), "Read")
}

// DescribedPartitions is Partitions for a user who may only describe the topic.
func (r *Reader) DescribedPartitions(ctx context.Context, topic schemas.Topic) (int32, error) {
	return PartitionCount(ctx, r.Client, topic.Name(r.prefix), "Describe")
}

// TopicID is the id of the topic that has the name now.
func (r *Reader) TopicID(ctx context.Context, topic schemas.Topic) (schemas.TopicID, error) {
	meta, err := DescribeTopic(ctx, r.Client, topic.Name(r.prefix), "Read")
	return meta.ID, err
}

// Bounds are the first offset of the partition and the one after the last, open transactions
// included.
func (r *Reader) Bounds(ctx context.Context, topic schemas.Topic, partition int32) (start, end int64, err error) {
	return r.boundsOf(ctx, topic.Name(r.prefix), partition)
}

func (r *Reader) boundsOf(ctx context.Context, name string, partition int32) (start, end int64, err error) {
	if start, err = listOffset(ctx, r.Client, name, partition, AtStart); err != nil {
		return 0, 0, err
	}
	end, err = listOffset(ctx, r.Client, name, partition, AtEnd)
	return start, max(start, end), err
}

// DescribePartition describes a partition, without what is committed of it.
func (r *Reader) DescribePartition(ctx context.Context, topic schemas.Topic, partition int32) (stream.Assignment,
	error) {
	at := stream.Assignment{Partition: partition, Offset: -1}
	for tries := 1; ; tries++ {
		meta, err := DescribeTopic(ctx, r.Client, topic.Name(r.prefix), "Read")
		if err == nil {
			at.Partitions, at.TopicID = int32(len(meta.Leaders)), meta.ID
			break
		}
		if !Retriable(err) || !Pause(ctx, Backoff(tries)) {
			return at, err
		}
	}
	var err error
	at.LogStart, at.LogEnd, err = r.Bounds(ctx, topic, partition)
	return at, err
}

// Read calls each for the records of a partition from offset from (-1: the first; or stream.Last) up to but without
// offset to (-1: the present end), in order. With committed it skips aborted records and waits for
// open transactions, because committed records may appear a moment after the answer to the commit.
// A record is valid until each returns. An error of each ends the read and is returned unchanged;
// temporary errors of Kafka are retried until ctx ends.
func (r *Reader) Read(ctx context.Context, topic schemas.Topic, partition int32, from, to int64, committed bool,
	each func(*schemas.Record) error) error {
	start, end, err := r.Bounds(ctx, topic, partition)
	if err != nil {
		return err
	}
	if to < 0 || to > end {
		to = end
	}
	if from < -1 {
		from += end + 1 // stream.Last
	}
	read := rangeRead{Reader: r, name: topic.Name(r.prefix), partition: partition, next: max(from, start), to: to,
		committed: committed}
	return read.run(ctx, each)
}

// MayRead returns an error that names the missing right if the user may not read the topic. Bounds needs
// the right to describe it alone, and a consumer tries for ever to read what it may not.
func (r *Reader) MayRead(ctx context.Context, topic schemas.Topic) error {
	_, end, err := r.Bounds(ctx, topic, 0)
	if err != nil {
		return err
	}
	read := rangeRead{Reader: r, name: topic.Name(r.prefix), next: end, peek: true}
	for tries := 1; ; tries++ {
		_, _, err := read.fetch(ctx)
		if err == nil || !Retriable(err) || !Pause(ctx, Backoff(tries)) {
			return WithGrantHint(err, "Read", OfTopic, read.name)
		}
		read.located = false
	}
}

// Tail calls each for the records of a partition from offset from on, uncommitted ones included, as soon as
// they are appended. It ends with an error: of ctx, of each, which is returned unchanged, or of Kafka where
// a retry would not help, as for an offset behind the end of a topic that was recreated, or if the topic does
// not exist for some seconds (IsMissingTopic). Records that have expired are skipped. The broker holds back
// answers, so the Reader should be used for nothing else.
func (r *Reader) Tail(ctx context.Context, topic schemas.Topic, partition int32, from int64,
	each func(*schemas.Record) error) error {
	read := rangeRead{Reader: r, name: topic.Name(r.prefix), partition: partition, next: from, to: math.MaxInt64, tail: true}
	return read.run(ctx, each)
}

// Retriable reports whether a retry may succeed.
func Retriable(err error) bool {
	var code *kerr.Error
	if errors.As(err, &code) {
		return code.Retriable
	}
	return !errors.Is(err, ErrRecordsExpired) && !errors.Is(err, kgo.ErrClientClosed) && !errors.Is(err, context.Canceled)
}

// OffsetSince is the first offset of the partition whose record has a time of at least since, by
// the brokers' time index: it may be somewhat earlier, never later. Without such a record it is
// the end of the partition.
func (r *Reader) OffsetSince(ctx context.Context, topic schemas.Topic, partition int32, since schemas.Millis) (int64,
	error) {
	name := topic.Name(r.prefix)
	// Negative times have another meaning.
	offset, err := listOffset(ctx, r.Client, name, partition, max(0, int64(since)))
	if err == nil && offset < 0 {
		offset, err = listOffset(ctx, r.Client, name, partition, AtEnd)
	}
	return offset, err
}

// ErrRecordsExpired means that retention has removed records before they were read.
var ErrRecordsExpired = errors.New("records expired before they were read")

// ReadComplete is Read of the committed records from offset from up to but without to, neither of
// which may be negative. It returns ErrRecordsExpired where Read would skip expired records.
func (r *Reader) ReadComplete(ctx context.Context, topic schemas.Topic, partition int32, from, to int64,
	each func(*schemas.Record) error) error {
	read := rangeRead{Reader: r, name: topic.Name(r.prefix), partition: partition, next: from, to: to,
		committed: true, complete: true}
	return read.run(ctx, each)
}

// ReadRaw calls each for every record of a partition of the named topic, from offset from up to
// the present end, aborted and open transactions included.
func (r *Reader) ReadRaw(ctx context.Context, name string, partition int32, from int64, each func(*kgo.Record)) error {
	_, end, err := r.boundsOf(ctx, name, partition)
	if err != nil {
		return err
	}
	read := rangeRead{Reader: r, name: name, partition: partition, next: from, to: end, raw: each}
	return read.run(ctx, nil)
}
