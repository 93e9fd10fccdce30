package schemas

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// densest plays clients that connect at random within a second, and returns how many heartbeats the
// fullest 100 ms have, connecting apart, for each in the mean.
func densest(clients int, span time.Duration, first, next func() time.Duration) float64 {
	const bin = 10 * time.Millisecond
	bins := make([]int, span/bin)
	beats := 0
	for range clients {
		at := time.Duration(rand.Int64N(int64(time.Second)))
		for at += first(); at < span; at += next() {
			bins[at/bin]++
			beats++
		}
	}
	most, window := 0, 0
	for i, n := range bins {
		if window += n; i >= 10 {
			window -= bins[i-10]
		}
		most = max(most, window)
	}
	return float64(most) / (float64(beats) * float64(10*bin) / float64(span))
}

func TestAMillionClientsThatConnectWithinASecondSpreadTheirHeartbeats(t *testing.T) {
	t.Parallel()
	s := ScheduleOf(15*time.Second, 0)
	first := func() time.Duration { return s.First(rand.Float64) }
	next := func() time.Duration { return s.Next(rand.Float64) }
	if ratio := densest(1_000_000, time.Minute, first, next); ratio > 1.15 {
		t.Errorf("the fullest 100 ms have %.2f times the mean, want at most 1.15", ratio)
	}
	// Without the random first part they stay together.
	if ratio := densest(100_000, time.Minute, next, next); ratio < 3 {
		t.Errorf("the fullest 100 ms have %.2f times the mean without a random first part, want at least 3", ratio)
	}
}

func TestNoHeartbeatComesLaterThanTheInterval(t *testing.T) {
	t.Parallel()
	s := ScheduleOf(15*time.Second, 0)
	for _, r := range []float64{0, 0.5, 1} {
		random := func() float64 { return r }
		if next := s.Next(random); next < 13500*time.Millisecond || next > s.Interval {
			t.Errorf("random %g: the next after %s", r, next)
		}
		if first := s.First(random); first < 0 || first > s.Interval {
			t.Errorf("random %g: the first after %s", r, first)
		}
	}
}

func TestTheJitterOfAPolicyIsShorterThanItsInterval(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy()
	for jitter, want := range map[time.Duration]time.Duration{0: 1500 * time.Millisecond, 6 * time.Second: 6 * time.Second} {
		p.HeartbeatJitter = jitter
		if got := p.Schedule(); p.Validate() != nil || got != (Schedule{15 * time.Second, want}) {
			t.Errorf("jitter %s: %+v (%v)", jitter, got, p.Validate())
		}
	}
	p.HeartbeatJitter = 15 * time.Second
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "heartbeat_jitter: is 15s, must be shorter than heartbeat_interval (15s)") {
		t.Errorf("a jitter of the interval: %v", err)
	}
}

func TestTheHelloHasTheSchedule(t *testing.T) {
	t.Parallel()
	got := string(HelloMessage(ScheduleOf(15*time.Second, 0), 500))
	want := `{"type":"hello","heartbeat_interval_ms":15000,"heartbeat_jitter_ms":1500,"max_subscriptions":500}`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
