package kafka

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/schemas"
)

// GroupStatus is how far a group's partitions of this process are.
type GroupStatus struct {
	Group      string
	Partitions []PartitionStatus
}

// watched looks at the loops of a process when somebody asks, so that what it
// tells goes on ageing while a loop stands still.
type watched struct {
	mu    sync.Mutex
	loops []*watchedLoop

	lagRecords, lagSeconds, watermark, age, phase *prometheus.Desc
}

type watchedLoop struct {
	group  string
	status func() []PartitionStatus
}

func newWatched() *watched {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("stillhere_stream_"+name, help, append([]string{"group", "partition"}, labels...), nil)
	}
	return &watched{
		lagRecords: describe("lag_records", "Records of the partition that have not been handled yet, as far as Kafka has told."),
		lagSeconds: describe("lag_seconds", "How far behind: age of the record handled last, 0 when none is waiting."),
		watermark:  describe("watermark_seconds", "Log time up to which everything has been applied, in Unix seconds."),
		age:        describe("watermark_age_seconds", "Age of the log time up to which everything has been applied."),
		phase:      describe("partition_phase", "1 for what the partition is doing: restoring, running or parked.", "phase"),
	}
}

// add watches a loop until the function that it returns is called.
func (w *watched) add(group string, status func() []PartitionStatus) (remove func()) {
	loop := &watchedLoop{group, status}
	w.mu.Lock()
	w.loops = append(w.loops, loop)
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		w.loops = slices.DeleteFunc(w.loops, func(l *watchedLoop) bool { return l == loop })
		w.mu.Unlock()
	}
}

// all asks every loop. A partition that two loops of a group tell of, as while it
// moves from one to the other, is told once.
func (w *watched) all() []GroupStatus {
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
		sortStatus(all[i].Partitions)
	}
	return all
}

// Describe tells which series there are.
func (w *watched) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{w.lagRecords, w.lagSeconds, w.watermark, w.age, w.phase} {
		to <- d
	}
}

// Collect tells how far every partition is now.
func (w *watched) Collect(to chan<- prometheus.Metric) {
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
