package member

import (
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// Progress is how far a partition is. Its goroutine writes it, except Fetched; any may read it.
type Progress struct {
	ID        int32
	Phase     kafka.AtomicPhase
	Next, End atomic.Int64 // the offset to be handled next; the end of the log as last fetched
	LogTime   atomic.Int64 // append time of the record handled last, in Unix milliseconds
	Watermark atomic.Int64 // see kafka.PartitionStatus

	behindSince atomic.Int64
}

// Fetched records that records came, and the end of the log with them.
func (p *Progress) Fetched(end int64) {
	if p.Phase.Load() == kafka.Running && p.Next.Load() >= p.End.Load() {
		p.behindSince.Store(time.Now().UnixMilli())
	}
	p.End.Store(end)
}

// Status is a snapshot.
func (p *Progress) Status() kafka.PartitionStatus {
	return kafka.PartitionStatus{
		Partition: p.ID, Phase: p.Phase.Load(), Offset: p.Next.Load(), End: p.End.Load(),
		BehindSince: schemas.Millis(p.behindSince.Load()),
		LogTime:     schemas.Millis(p.LogTime.Load()), Watermark: schemas.Millis(p.Watermark.Load()),
	}
}
