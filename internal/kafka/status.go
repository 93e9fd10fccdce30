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

// PartitionStatus is the progress of one partition.
type PartitionStatus struct {
	Partition int32
	Phase     Phase
	// Offset is the next to process, End the end of the log by Kafka's last answer.
	Offset, End int64
	// BehindSince is when records last arrived in a partition that had caught up; 0 before it has
	// caught up for the first time.
	BehindSince schemas.Millis
	// LogTime is the append time of the last processed record; 0 if there is none.
	LogTime schemas.Millis
	// Watermark is the log time up to which everything has been applied; 0 if it is unknown or
	// this loop has none.
	Watermark schemas.Millis
}

// CaughtUp reports whether the partition runs and has processed everything up to End, which may be
// a second old.
func (s PartitionStatus) CaughtUp() bool { return s.Phase == Running && s.Offset >= s.End }

// Phase is what a partition is doing.
type Phase string

// The phases of a partition.
const (
	Restoring Phase = "restoring"
	Running   Phase = "running"
	Parked    Phase = "parked"
)

// ReadyLag is how far a partition that has caught up once may fall behind and still count as ready:
// a burst must not make a process unready. It is also the age from which readers report a state as
// stale.
const ReadyLag = 5 * time.Second

// CheckReady is nil if all partitions have caught up, and keep up since then: the records that wait arrived, by the clock
// or by the log, less than ReadyLag ago.
func CheckReady(all []PartitionStatus) error {
	now := time.Now()
	for _, s := range all {
		switch {
		case s.Phase == Restoring:
			return fmt.Errorf("partition %d is being restored", s.Partition)
		case s.Phase == Parked:
			return fmt.Errorf("partition %d is parked", s.Partition)
		case !s.CaughtUp() && (s.BehindSince == 0 || now.Sub(max(s.BehindSince, s.LogTime).Time()) >= ReadyLag):
			return fmt.Errorf("partition %d is %d records behind", s.Partition, s.End-s.Offset)
		}
	}
	return nil
}

// AtomicPhase is a Phase for concurrent use.
type AtomicPhase struct{ v atomic.Value }

func (a *AtomicPhase) Store(p Phase) { a.v.Store(p) }
func (a *AtomicPhase) Load() Phase   { p, _ := a.v.Load().(Phase); return p }

// SortStatus sorts by partition.
func SortStatus(all []PartitionStatus) {
	slices.SortFunc(all, func(a, b PartitionStatus) int { return cmp.Compare(a.Partition, b.Partition) })
}

// GroupStatus is the progress of a group's partitions in this process.
type GroupStatus struct {
	Group      string
	Partitions []PartitionStatus
}

// statusCollector asks the loops at each scrape, so that the lag of a stuck loop keeps growing.
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
		lagRecords: describe("lag_records", "Records of the partition that are not processed yet, by Kafka's last answer."),
		lagSeconds: describe("lag_seconds", "Age of the last processed record; 0 if no record waits."),
		watermark:  describe("watermark_seconds", "Log time up to which everything has been applied, in Unix seconds."),
		age:        describe("watermark_age_seconds", "Age of the log time up to which everything has been applied."),
		phase:      describe("partition_phase", "1 for the phase of the partition: restoring, running or parked.", "phase"),
	}
}

// add watches a loop until the caller calls remove.
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

// all asks every loop. It returns a partition once, even if two loops of a group report it while it
// moves between them.
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

// Describe describes the series.
func (w *statusCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{w.lagRecords, w.lagSeconds, w.watermark, w.age, w.phase} {
		to <- d
	}
}

// Collect reports the progress of every partition.
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

// Lag is 0 if no record waits, by Kafka's last answer, and otherwise the age of the last processed
// record. It is unknown before the first record.
func (s PartitionStatus) Lag(now time.Time) (lag time.Duration, known bool) {
	switch {
	case s.Phase == Running && s.Offset >= s.End:
		return 0, true
	case s.LogTime == 0:
		return 0, false
	}
	return max(now.Sub(s.LogTime.Time()), 0), true
}

// WatermarkAge is the age of the watermark; it is unknown while there is none.
func (s PartitionStatus) WatermarkAge(now time.Time) (age time.Duration, known bool) {
	return max(now.Sub(s.Watermark.Time()), 0), s.Watermark != schemas.Millis(0)
}
