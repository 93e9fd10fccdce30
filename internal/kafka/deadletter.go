package kafka

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
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
	HeaderGroup           = "stillhere-group"            // the group that rejected it
	HeaderErrorCode       = "stillhere-error-code"
	HeaderError           = "stillhere-error"
	HeaderCut             = "stillhere-cut" // the record's sizes, if the dead letter has only a part of it
)

const (
	// maxLetter is below the default limit of brokers and clients for one record, about 1 MB. A
	// dead letter that they refuse would block its partition for ever.
	maxLetter = 900_000 // bytes
	// A larger one is cut to so much of the key and of the value, without the record's headers.
	cutKey, cutValue = 1 << 10, 64 << 10
	maxReason        = 1 << 10
	headerFrame      = 16 // bytes, at least, for the lengths of one header
)

// DeadLetterOrigin is where a dead letter comes from, besides its partition and offset.
type DeadLetterOrigin struct{ Topic, Group string }

// DeadLetter is the record that stores r, which can never be decoded, for operators: same key and
// value, unless they are too large.
func DeadLetter(from DeadLetterOrigin, r *schemas.Record, reason error, partitions int32) schemas.Outgoing {
	letter := schemas.Outgoing{Topic: schemas.DeadLetter, Partition: deadLetterPartition(r, partitions), Key: r.Key,
		Value: r.Value}
	add := func(header string, value any) {
		letter.Headers = append(letter.Headers, schemas.Header{Key: header, Value: fmt.Append(nil, value)})
	}
	add(HeaderOriginTopic, from.Topic)
	add(HeaderOriginPartition, r.Partition)
	add(HeaderOriginOffset, r.Offset)
	add(HeaderOriginTimestamp, int64(r.Time))
	add(HeaderGroup, from.Group)
	add(HeaderErrorCode, ErrorCode(reason))
	why := reason.Error()
	add(HeaderError, why[:min(len(why), maxReason)])
	if sizeOf(r) <= maxLetter {
		letter.Headers = append(letter.Headers, r.Headers...)
		return letter
	}
	add(HeaderCut, fmt.Sprintf("the key has %d bytes, the value %d; %d headers", len(r.Key), len(r.Value),
		len(r.Headers)))
	letter.Key, letter.Value = r.Key[:min(len(r.Key), cutKey)], r.Value[:min(len(r.Value), cutValue)]
	return letter
}

func sizeOf(r *schemas.Record) int {
	size := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		size += len(r.Headers[i].Key) + len(r.Headers[i].Value) + headerFrame
	}
	return size
}

// deadLetterPartition gives dead letters of one key the same partition; those without a key keep
// theirs.
func deadLetterPartition(r *schemas.Record, partitions int32) int32 {
	if r.Key == nil {
		return r.Partition % partitions
	}
	hash := fnv.New32a()
	hash.Write(r.Key)
	return int32(hash.Sum32() % uint32(partitions))
}

// ErrorCode is the code of a *schemas.FieldError, or "other".
func ErrorCode(err error) string {
	var field *schemas.FieldError
	if errors.As(err, &field) && field.Code != "" {
		return field.Code
	}
	return "other"
}

// DeadLetterLogLimit bounds the log lines about rejected records, of which a faulty writer may
// write millions. The metric counts all of them.
func DeadLetterLogLimit() *rate.Sometimes { return &rate.Sometimes{First: 20, Interval: time.Second} }

// SendToDeadLetter writes r, which group read from topic and cannot decode, to the dead-letter
// topic. Kafka has acknowledged it when the error is nil.
func (p *Producer) SendToDeadLetter(ctx context.Context, topic schemas.Topic, group string, r *schemas.Record,
	reason error) error {
	partitions, err := p.Partitions(ctx, schemas.DeadLetter)
	if err != nil {
		return err
	}
	return p.AppendSync(ctx, DeadLetter(DeadLetterOrigin{topic.Name(p.prefix), group}, r, reason, partitions))
}
