package kafka

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// PartitionStatus is how far one partition is.
type PartitionStatus struct {
	Partition int32
	Phase     Phase
	// Offset is the next to be handled, End the end of the log as last heard.
	Offset, End int64
	// BehindSince is when records last came to a partition that had caught up; 0 until
	// it has for the first time.
	BehindSince schemas.Millis
	// LogTime is the append time of the record handled last, 0 if none yet.
	LogTime schemas.Millis
	// Watermark is the log time up to which everything has been applied; 0 when
	// that is not known, or nobody asks this loop for it.
	Watermark schemas.Millis
}

// CaughtUp tells whether the partition runs and has handled everything that was
// in it when last heard, but for what the last second may have brought.
func (s PartitionStatus) CaughtUp() bool { return s.Phase == Running && s.Offset >= s.End }

// Phase is what a partition is doing.
type Phase string

// The phases of a partition.
const (
	Restoring Phase = "restoring"
	Running   Phase = "running"
	Parked    Phase = "parked"
)

// readyLag is how far behind a partition that has caught up once may fall before it
// counts as not ready: a burst must not take a process out of service. It is the age
// from which readers call a state stale.
const readyLag = 5 * time.Second

// keepsUp tells whether what waits in the partition came, by the clock or by the log,
// less than readyLag ago.
func (s PartitionStatus) keepsUp(now time.Time) bool {
	return s.BehindSince != 0 && now.Sub(max(s.BehindSince, s.LogTime).Time()) < readyLag
}

// ready is nil when all of these have caught up, and since then keep up.
func ready(all []PartitionStatus) error {
	now := time.Now()
	for _, s := range all {
		switch {
		case s.Phase == Restoring:
			return fmt.Errorf("partition %d is being restored", s.Partition)
		case s.Phase == Parked:
			return fmt.Errorf("partition %d is parked", s.Partition)
		case !s.CaughtUp() && !s.keepsUp(now):
			return fmt.Errorf("partition %d is %d records behind", s.Partition, s.End-s.Offset)
		}
	}
	return nil
}

// atomicPhase is a Phase that several goroutines may look at.
type atomicPhase struct{ v atomic.Value }

func (a *atomicPhase) Store(p Phase) { a.v.Store(p) }
func (a *atomicPhase) Load() Phase   { p, _ := a.v.Load().(Phase); return p }

func sortStatus(all []PartitionStatus) {
	slices.SortFunc(all, func(a, b PartitionStatus) int { return cmp.Compare(a.Partition, b.Partition) })
}
