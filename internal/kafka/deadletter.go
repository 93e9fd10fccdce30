package kafka

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/schemas"
)

// Headers of a dead letter, all text. The record's own headers follow them.
const (
	HeaderOriginTopic     = "stillhere-origin-topic"
	HeaderOriginPartition = "stillhere-origin-partition"
	HeaderOriginOffset    = "stillhere-origin-offset"
	HeaderOriginTimestamp = "stillhere-origin-timestamp" // Unix milliseconds
	HeaderGroup           = "stillhere-group"            // whose loop set it aside
	HeaderErrorCode       = "stillhere-error-code"
	HeaderError           = "stillhere-error"
	HeaderCut             = "stillhere-cut" // only where the letter is not all of the record: its sizes
)

const (
	// maxLetter is below what brokers and clients take in one record, which is about 1 MB
	// unless they are told otherwise. A letter that they do not take would hold up its
	// partition for ever.
	maxLetter = 900_000 // bytes
	// A letter that would be larger has so much of the key and of the value, and none of
	// the record's headers.
	keptOfKey, keptOfValue = 1 << 10, 64 << 10
	maxReason              = 1 << 10
	headerFrame            = 16 // bytes, at least, for the lengths of one header
)

// DeadLetterOrigin is where a dead letter comes from, besides its partition and offset.
type DeadLetterOrigin struct{ Topic, Group string }

// DeadLetter is the record that keeps r, which can never be understood, for
// people to look at: same key, same value, unless they are too large to be written again.
func DeadLetter(from DeadLetterOrigin, r *schemas.Record, reason error, partitions int32) schemas.Outgoing {
	text := func(s string) []byte { return []byte(s) }
	why := reason.Error()
	headers := []schemas.Header{
		{Key: HeaderOriginTopic, Value: text(from.Topic)},
		{Key: HeaderOriginPartition, Value: text(strconv.Itoa(int(r.Partition)))},
		{Key: HeaderOriginOffset, Value: text(strconv.FormatInt(r.Offset, 10))},
		{Key: HeaderOriginTimestamp, Value: text(strconv.FormatInt(int64(r.Time), 10))},
		{Key: HeaderGroup, Value: text(from.Group)},
		{Key: HeaderErrorCode, Value: text(ErrorCode(reason))},
		{Key: HeaderError, Value: text(why[:min(len(why), maxReason)])},
	}
	letter := schemas.Outgoing{Topic: schemas.DeadLetter, Partition: deadLetterPartition(r, partitions), Key: r.Key, Value: r.Value}
	if sizeOf(r) > maxLetter {
		headers = append(headers, schemas.Header{Key: HeaderCut,
			Value: fmt.Appendf(nil, "the key has %d bytes, the value %d; %d headers", len(r.Key), len(r.Value), len(r.Headers))})
		letter.Key, letter.Value = r.Key[:min(len(r.Key), keptOfKey)], r.Value[:min(len(r.Value), keptOfValue)]
		letter.Headers = headers
		return letter
	}
	letter.Headers = append(headers, r.Headers...)
	return letter
}

func sizeOf(r *schemas.Record) int {
	size := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		size += len(r.Headers[i].Key) + len(r.Headers[i].Value) + headerFrame
	}
	return size
}

// deadLetterPartition keeps letters of one key together; those without a key
// stay with their partition.
func deadLetterPartition(r *schemas.Record, partitions int32) int32 {
	if r.Key == nil {
		return r.Partition % partitions
	}
	hash := fnv.New32a()
	hash.Write(r.Key)
	return int32(hash.Sum32() % uint32(partitions))
}

func ErrorCode(err error) string {
	var field *schemas.FieldError
	if errors.As(err, &field) && field.Code != "" {
		return field.Code
	}
	return "other"
}

// DeadLetterLogLimit bounds what is logged of rejected records, for whoever writes
// them may write a million. The metric counts all of them.
func DeadLetterLogLimit() *rate.Sometimes { return &rate.Sometimes{First: 20, Interval: time.Second} }

// SendToDeadLetter keeps r, which group read from topic and cannot make anything of, in the
// dead letter topic; it is there when the error is nil.
func (p *Producer) SendToDeadLetter(ctx context.Context, topic schemas.Topic, group string, r *schemas.Record, reason error) error {
	partitions, err := p.Partitions(ctx, schemas.DeadLetter)
	if err != nil {
		return err
	}
	return p.AppendSync(ctx, DeadLetter(DeadLetterOrigin{topic.Name(p.prefix), group}, r, reason, partitions))
}
