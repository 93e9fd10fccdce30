package kafka

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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

// ReadyLag is how far behind a partition that has caught up once may fall before it
// counts as not ready: a burst must not take a process out of service. It is the age
// from which readers call a state stale.
const ReadyLag = 5 * time.Second

// keepsUp tells whether what waits in the partition came, by the clock or by the log,
// less than readyLag ago.
func (s PartitionStatus) keepsUp(now time.Time) bool {
	return s.BehindSince != 0 && now.Sub(max(s.BehindSince, s.LogTime).Time()) < ReadyLag
}

// CheckReady is nil when all of these have caught up, and since then keep up.
func CheckReady(all []PartitionStatus) error {
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

// AtomicPhase is a Phase that several goroutines may look at.
type AtomicPhase struct{ v atomic.Value }

func (a *AtomicPhase) Store(p Phase) { a.v.Store(p) }
func (a *AtomicPhase) Load() Phase   { p, _ := a.v.Load().(Phase); return p }

func SortStatus(all []PartitionStatus) {
	slices.SortFunc(all, func(a, b PartitionStatus) int { return cmp.Compare(a.Partition, b.Partition) })
}

// GroupStatus is how far a group's partitions of this process are.
type GroupStatus struct {
	Group      string
	Partitions []PartitionStatus
}

// statusCollector looks at the loops of a process when somebody asks, so that what it
// tells goes on ageing while a loop stands still.
type statusCollector struct {
	mu    sync.Mutex
	loops []*statusSource

	lagRecords, lagSeconds, watermark, age, phase *prometheus.Desc
}

type statusSource struct {
	group  string
	status func() []PartitionStatus
}

func newStatusCollector() *statusCollector {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("stillhere_stream_"+name, help, append([]string{"group", "partition"}, labels...), nil)
	}
	return &statusCollector{
		lagRecords: describe("lag_records", "Records of the partition that have not been handled yet, as far as Kafka has told."),
		lagSeconds: describe("lag_seconds", "How far behind: age of the record handled last, 0 when none is waiting."),
		watermark:  describe("watermark_seconds", "Log time up to which everything has been applied, in Unix seconds."),
		age:        describe("watermark_age_seconds", "Age of the log time up to which everything has been applied."),
		phase:      describe("partition_phase", "1 for what the partition is doing: restoring, running or parked.", "phase"),
	}
}

// add watches a loop until the function that it returns is called.
func (w *statusCollector) add(group string, status func() []PartitionStatus) (remove func()) {
	loop := &statusSource{group, status}
	w.mu.Lock()
	w.loops = append(w.loops, loop)
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		w.loops = slices.DeleteFunc(w.loops, func(l *statusSource) bool { return l == loop })
		w.mu.Unlock()
	}
}

// all asks every loop. A partition that two loops of a group tell of, as while it
// moves from one to the other, is told once.
func (w *statusCollector) all() []GroupStatus {
	w.mu.Lock()
	loops := slices.Clone(w.loops)
	w.mu.Unlock()
	var all []GroupStatus
	for _, loop := range loops {
		i := slices.IndexFunc(all, func(g GroupStatus) bool { return g.Group == loop.group })
		if i < 0 {
			all = append(all, GroupStatus{Group: loop.group})
			i = len(all) - 1
		}
		for _, p := range loop.status() {
			if !slices.ContainsFunc(all[i].Partitions, func(q PartitionStatus) bool { return q.Partition == p.Partition }) {
				all[i].Partitions = append(all[i].Partitions, p)
			}
		}
		SortStatus(all[i].Partitions)
	}
	return all
}

// Describe tells which series there are.
func (w *statusCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{w.lagRecords, w.lagSeconds, w.watermark, w.age, w.phase} {
		to <- d
	}
}

// Collect tells how far every partition is now.
func (w *statusCollector) Collect(to chan<- prometheus.Metric) {
	now := time.Now()
	for _, g := range w.all() {
		for _, p := range g.Partitions {
			labels := []string{g.Group, strconv.Itoa(int(p.Partition))}
			gauge := func(d *prometheus.Desc, value float64, more ...string) {
				to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append(labels, more...)...)
			}
			gauge(w.lagRecords, float64(max(p.End-p.Offset, 0)))
			if lag, known := p.Lag(now); known {
				gauge(w.lagSeconds, lag.Seconds())
			}
			if p.Watermark != 0 {
				gauge(w.watermark, float64(p.Watermark)/1000)
				gauge(w.age, max(now.Sub(p.Watermark.Time()).Seconds(), 0))
			}
			for _, phase := range []Phase{Restoring, Running, Parked} {
				gauge(w.phase, one(p.Phase == phase), string(phase))
			}
		}
	}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Lag is how far the partition is behind: nothing when no record is waiting, as
// far as Kafka has told; else the age of the record handled last. It is not known
// before the first record has been handled.
func (s PartitionStatus) Lag(now time.Time) (lag time.Duration, known bool) {
	switch {
	case s.Phase == Running && s.Offset >= s.End:
		return 0, true
	case s.LogTime == 0:
		return 0, false
	}
	return max(now.Sub(s.LogTime.Time()), 0), true
}

// WatermarkAge is how old the log time is up to which everything has been
// applied; it is not known before there is one, nor to groups that keep none.
func (s PartitionStatus) WatermarkAge(now time.Time) (age time.Duration, known bool) {
	return max(now.Sub(s.Watermark.Time()), 0), s.Watermark != schemas.Millis(0)
}
