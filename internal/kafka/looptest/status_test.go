//go:build synctests

package looptest

import (
	"errors"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

// series is the value of a gauge with these labels in what operators read, and
// whether it is there.
func (w *world) series(name string, labels map[string]string) (float64, bool) {
	w.Helper()
	families := must.Get(w.registry.Gather())(w)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
	metrics:
		for _, m := range family.Metric {
			has := map[string]string{}
			for _, l := range m.Label {
				has[l.GetName()] = l.GetValue()
			}
			for k, v := range labels {
				if has[k] != v {
					continue metrics
				}
			}
			if m.Counter != nil {
				return m.Counter.GetValue(), true
			}
			return m.Gauge.GetValue(), true
		}
	}
	return 0, false
}

func TestTheLagOfAFollowerThatStandsStillGoesOnGrowing(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		stopMember, _ := w.member("a")
		keeper := newKeeper()
		stop, follower := w.follower("f", keeper, consumer.WatermarksOf("detector", "heartbeats"))
		at := map[string]string{"group": "follower", "partition": "0"}
		w.beat(0, "x")
		w.until("followed", time.Minute, func() bool { return keeper.count(0) == 1 && follower.Ready() == nil })
		w.until("no lag, and a fresh watermark", 10*time.Second, func() bool {
			lag, known := w.series("stillhere_stream_lag_seconds", at)
			age, marked := w.series("stillhere_stream_watermark_age_seconds", at)
			return known && lag == 0 && marked && age < 3
		})
		keeper.setFail(errors.New("the world is unwell"), -1)
		w.beat(0, "x")
		time.Sleep(time.Minute)
		if lag, _ := w.series("stillhere_stream_lag_seconds", at); lag < 59 {
			t.Errorf("a follower that has stood still for a minute is said to be %.1f s behind", lag)
		}
		if records, _ := w.series("stillhere_stream_lag_records", at); records < 1 {
			t.Errorf("%.0f records are said to be waiting", records)
		}
		if age, _ := w.series("stillhere_stream_watermark_age_seconds", at); age < 55 {
			t.Errorf("the watermark of a minute ago is said to be %.1f s old", age)
		}
		keeper.setFail(nil, -1)
		stop()
		if _, there := w.series("stillhere_stream_lag_seconds", at); there {
			t.Error("the series of a follower that has ended are still there")
		}
		must.Do(t, stopMember())
	})
}

func TestTheMetricsShowWhatEveryPartitionIsDoingAndWhatTheClientDoes(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.joined("a", 2)
		time.Sleep(2 * time.Second)
		for _, partition := range []string{"0", "1"} {
			at := map[string]string{"group": "detector", "partition": partition, "phase": "running"}
			if running, there := w.series("stillhere_stream_partition_phase", at); !there || running != 1 {
				t.Errorf("partition %s is not said to be running", partition)
			}
			at["phase"] = "restoring"
			if restoring, there := w.series("stillhere_stream_partition_phase", at); !there || restoring != 0 {
				t.Errorf("partition %s is said to be restoring", partition)
			}
			delete(at, "phase")
			// Ticks come four times a second.
			if age, there := w.series("stillhere_stream_watermark_age_seconds", at); !there || age > 1 {
				t.Errorf("partition %s: the watermark is %.2f s old (there: %v)", partition, age, there)
			}
		}
		if n, _ := w.series("stillhere_kafka_fetch_records_total", map[string]string{"client": "detector", "topic": "presence.heartbeats"}); n < 8 {
			t.Errorf("the client is said to have fetched %.0f records", n)
		}
	})
}
