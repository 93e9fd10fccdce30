package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/schemas"
)

// rangeRead is one Read under way.
type rangeRead struct {
	*Reader
	name      string
	partition int32
	next, to  int64
	committed bool
	complete  bool // an expired record is an error
	peek      bool // an answer without records comes at once
	tail      bool // waits for records that are yet to be appended
	raw       func(*kgo.Record)

	topicID [16]byte
	leader  int32
	located bool
}

func (r *rangeRead) run(ctx context.Context, each func(*schemas.Record) error) error {
	var record schemas.Record
	var headers []schemas.Header
	held := blockedRead{since: time.Now()}
	for tries := 0; r.next < r.to; {
		fetched, next, err := r.fetch(ctx)
		if err == nil {
			tries = 0
			if !r.tail {
				held.report(r, next, fetched.LastStableOffset)
			}
			for _, from := range fetched.Records {
				if from.Offset < r.next || from.Offset >= r.to {
					continue
				}
				if r.raw != nil {
					r.raw(from)
					continue
				}
				headers = FromKafka(&record, from, headers)
				if err := each(&record); err != nil {
					return err
				}
			}
			if r.next = max(r.next, next); r.tail && len(fetched.Records) > 0 && next >= fetched.HighWatermark {
				Pause(ctx, r.TailRest)
			}
			continue
		}
		if ctx.Err() != nil || !Retriable(err) || r.tail && tries >= 9 && IsMissingTopic(err) {
			return fmt.Errorf("reading %s partition %d at offset %d: %w", r.name, r.partition, r.next,
				errors.Join(WithGrantHint(err, "Read", OfTopic, r.name), ctx.Err()))
		}
		r.located = false
		tries++
		if tries == 10 {
			r.log.Warn("reading from Kafka makes no progress; still retrying", "topic", r.name, "partition", r.partition,
				"offset", r.next, "error", err)
		}
		Pause(ctx, Backoff(tries))
	}
	return nil
}

// blockedRead logs that a read waits for an open transaction.
type blockedRead struct{ since, reported time.Time }

// blockedNotice is the interval of those log lines. Kafka ends the transaction of a dead producer
// at the transaction timeout, which it checks every 10 s.
const blockedNotice = 10 * time.Second

func (h *blockedRead) report(r *rangeRead, next, stable int64) {
	now := time.Now()
	if next > r.next {
		if !h.reported.IsZero() {
			r.log.Info("the open transaction has ended; reading continues", "topic", r.name, "partition", r.partition,
				"offset", next)
		}
		*h = blockedRead{since: now}
		return
	}
	if now.Sub(h.since) >= blockedNotice && now.Sub(h.reported) >= blockedNotice {
		h.reported = now
		r.log.Warn("reading waits for an open transaction; kafka-transactions.sh find-hanging names its producer",
			"topic", r.name, "partition", r.partition, "offset", r.next, "last_stable_offset", stable, "end", r.to, "waited",
			now.Sub(h.since).Round(time.Second))
	}
}

// fetch sends one request and returns the next offset to read.
func (r *rangeRead) fetch(ctx context.Context) (kgo.FetchPartition, int64, error) {
	none := kgo.FetchPartition{}
	if !r.located {
		meta, err := DescribeTopic(ctx, r.Client, r.name, "Read")
		if err != nil {
			return none, 0, err
		}
		if int(r.partition) >= len(meta.Leaders) {
			return none, 0, kerr.UnknownTopicOrPartition
		}
		r.topicID, r.leader, r.located = meta.ID, meta.Leaders[r.partition], true
	}
	response, err := r.Client.Broker(int(r.leader)).RetriableRequest(ctx, r.request())
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

var errNoAnswer = errors.New("the answer does not have the requested partition")

// tailWaitMillis is how long the broker holds back its answer while there is no record. It is less than the
// time that the client waits for an answer.
const tailWaitMillis = 5000

func (r *rangeRead) request() *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	switch {
	case r.tail:
		request.MaxWaitMillis = tailWaitMillis
	case !r.peek:
		request.MaxWaitMillis = 500
	}
	request.MinBytes = 1
	request.MaxBytes = fetchMaxBytes
	if r.committed {
		request.IsolationLevel = readCommitted
	}
	request.SessionEpoch = -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = r.name, r.topicID
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition = r.partition
	part.FetchOffset = r.next
	part.PartitionMaxBytes = 16 * fetchPartitionMax
	topic.Partitions = append(topic.Partitions, part)
	request.Topics = append(request.Topics, topic)
	return request
}

func (r *rangeRead) parse(part *kmsg.FetchResponseTopicPartition) (kgo.FetchPartition, int64, error) {
	options := kgo.ProcessFetchPartitionOpts{Offset: r.next, Topic: r.name, Partition: r.partition,
		IsolationLevel: kgo.ReadUncommitted()}
	if r.committed {
		options.IsolationLevel = kgo.ReadCommitted()
	}
	fetched, next := kgo.ProcessFetchPartition(options, part, r.decompressor, nil)
	var tooLarge *kgo.ErrDecompressTooLarge
	if errors.As(fetched.Err, &tooLarge) {
		r.log.Error("skipped a batch that exceeds the maximum batch size", "topic", r.name, "partition", r.partition,
			"offset", tooLarge.Offset, "next", tooLarge.NextOffset)
		return fetched, max(next, tooLarge.NextOffset), nil
	}
	if errors.Is(fetched.Err, kerr.OffsetOutOfRange) && r.next < fetched.LogStartOffset {
		// The records expired during the read.
		if r.complete {
			return fetched, 0, ErrRecordsExpired
		}
		return kgo.FetchPartition{}, fetched.LogStartOffset, nil
	}
	return fetched, next, fetched.Err
}
