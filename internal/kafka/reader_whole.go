package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/schemas"
)

// ErrOvertaken says that records that were to be read are gone: retention was
// there first.
var ErrOvertaken = errors.New("records that were to be read are gone")

// ReadWhole is Read of exactly the offsets from up to but without to, neither of
// which may be negative, and read committed. Where Read goes on after records
// that are gone, it ends with ErrOvertaken.
func (r *Reader) ReadWhole(ctx context.Context, topic schemas.Topic, partition int32, from, to int64, each func(*schemas.Record) error) error {
	read := rangeRead{Reader: r, name: topic.Name(r.prefix), partition: partition, next: from, to: to,
		isolation: kgo.ReadCommitted(), level: 1, whole: true}
	return read.run(ctx, each)
}
