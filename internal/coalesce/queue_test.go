package coalesce

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

var rules = Rules{
	HeartbeatInterval: 15 * time.Second, ActiveAfterIdle: time.Minute, ForgetAfter: time.Minute,
	MaxDevices: 1_000_000, MaxInFlight: 8, MaxErased: 100,
}

// beat is a report of a phone that is in somebody's hand.
func beat(user schemas.UserID) Report {
	return Report{User: user, Device: 7, Kind: schemas.Mobile}
}

func bye(user schemas.UserID) Report { return Report{User: user, Device: 7, Bye: true} }

func idle(user schemas.UserID, d time.Duration) Report {
	r := beat(user)
	r.Idle = schemas.Millis(d.Milliseconds())
	return r
}

func add(t *testing.T, q *Queue, now time.Duration, r Report) (hurry bool) {
	t.Helper()
	hurry = must.Get(q.Add(now, r))(t)
	return hurry
}

// sealed is the only batch that q has to give at now.
func sealed(t *testing.T, q *Queue, now time.Duration) *Batch {
	t.Helper()
	b := q.Seal(now)
	if b == nil {
		t.Fatal("nothing was ready")
	}
	if again := q.Seal(now); again != nil {
		t.Fatalf("a second batch was ready: %+v", again.Beats)
	}
	return b
}

// known is a queue to which user 1 has reported at 0, and Kafka has it.
func known(t *testing.T, first Report) *Queue {
	t.Helper()
	q := New(rules)
	add(t, q, 0, first)
	q.Settle(0, sealed(t, q, 0), true)
	return q
}

func TestFirstBeatIsUrgentAndARepeatIsNot(t *testing.T) {
	t.Parallel()
	q := known(t, beat(1))
	if add(t, q, 15*time.Second, beat(1)) || q.Seal(15*time.Second) != nil {
		t.Fatal("a repeat was urgent")
	}
	q.Flush()
	if b := sealed(t, q, 15*time.Second+300*time.Millisecond); b.Beats[0].Age != 300 {
		t.Fatalf("age is %d, want the 300 ms since it came in", b.Beats[0].Age)
	}
}

func TestWhatCanChangeAStateIsUrgent(t *testing.T) {
	t.Parallel()
	desk := beat(1)
	desk.Kind = schemas.Desktop
	for name, c := range map[string]struct {
		first, next Report
		after       time.Duration
		want        bool
	}{
		"active after idle":                     {idle(1, time.Minute), beat(1), time.Second, true},
		"idle for longer than between two":      {idle(1, 50*time.Second), beat(1), 15 * time.Second, true},
		"active after a little idleness":        {idle(1, 20*time.Second), beat(1), time.Second, false},
		"still idle":                            {idle(1, time.Minute), idle(1, 75*time.Second), 15 * time.Second, false},
		"becoming idle":                         {beat(1), idle(1, 15*time.Second), 15 * time.Second, false},
		"bye":                                   {beat(1), bye(1), time.Second, true},
		"another kind":                          {beat(1), desk, time.Second, true},
		"one ms before two silent intervals":    {idle(1, 0), idle(1, 29*time.Second), 30*time.Second - time.Millisecond, false},
		"two silent intervals, idle throughout": {idle(1, 0), idle(1, 30*time.Second), 30 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := known(t, c.first)
			if got := add(t, q, c.after, c.next); got != c.want {
				t.Fatalf("urgent is %v, want %v", got, c.want)
			}
		})
	}
}

func TestNewestReportWins(t *testing.T) {
	t.Parallel()
	q := known(t, beat(1))
	for i := range 1000 {
		add(t, q, time.Duration(i)*time.Millisecond, idle(1, time.Duration(i)*time.Millisecond))
	}
	q.Flush()
	b := sealed(t, q, 999*time.Millisecond)
	if len(b.Beats) != 1 || b.Beats[0].Idle != 999 || b.Beats[0].Age != 0 {
		t.Fatalf("got %+v, want one beat, idle 999 ms, of just now", b.Beats)
	}
	if coalesced, _ := q.Counts(); coalesced != 999 {
		t.Fatalf("%d coalesced, want 999", coalesced)
	}
}

func TestByeAfterBeatIsAByeAndBeatAfterByeIsABeat(t *testing.T) {
	t.Parallel()
	q := New(rules)
	add(t, q, 0, beat(1))
	add(t, q, 0, bye(1))
	add(t, q, 0, bye(2))
	add(t, q, 0, beat(2))
	b := sealed(t, q, 0)
	if !b.Beats[0].Bye || b.Beats[1].Bye || b.Beats[0].Kind != schemas.Mobile {
		t.Fatalf("got %+v, want the bye of a phone, then a beat", b.Beats)
	}
	q.Settle(0, b, true)
	if q.Devices() != 1 {
		t.Fatalf("%d devices are present, want 1", q.Devices())
	}
}

func TestByeKeepsTheTimeOfTheLastTouch(t *testing.T) {
	t.Parallel()
	q := known(t, idle(1, 20*time.Second))
	add(t, q, 5*time.Second, bye(1))
	if b := sealed(t, q, 5*time.Second); b.Beats[0].Idle != 25_000 {
		t.Fatalf("idle is %d, want 25000: nobody has touched it since", b.Beats[0].Idle)
	}
}

func TestFlappingDeviceIsUrgentOnlySoOften(t *testing.T) {
	t.Parallel()
	q := known(t, beat(1))
	urgent := 0
	for i := range 100 {
		now := time.Duration(i) * time.Millisecond
		r := bye(1)
		if i%2 == 1 {
			r = beat(1)
		}
		if add(t, q, now, r) {
			urgent++
			q.Settle(now, sealed(t, q, now), true)
		}
	}
	if urgent != maxUrgent-1 { // the first beat was one
		t.Fatalf("%d of 100 reports were urgent, want %d until the next flush", urgent, maxUrgent-1)
	}
}

func TestAgesReachBackNoFurtherThanTheReportBefore(t *testing.T) {
	t.Parallel()
	q := New(rules)
	add(t, q, 0, beat(1))
	first := sealed(t, q, 0)
	add(t, q, 10*time.Millisecond, bye(1))
	if q.Seal(10*time.Millisecond) != nil {
		t.Fatal("a second report of the device left while the first was on its way")
	}
	q.Settle(50*time.Millisecond, first, true)
	if b := sealed(t, q, 52*time.Millisecond); b.Beats[0].Age != 2 {
		t.Fatalf("age is %d, want 2: the broker stamped the first report up to 2 ms ago", b.Beats[0].Age)
	}
}

func TestFailedReportsAreSentAgainWithTrueAges(t *testing.T) {
	t.Parallel()
	q := New(rules)
	add(t, q, 0, beat(1))
	add(t, q, 0, beat(2))
	b := sealed(t, q, 0)
	add(t, q, 40*time.Second, idle(2, time.Second))
	q.Settle(41*time.Second, b, false)
	q.Flush()
	again := sealed(t, q, 2*time.Minute)
	want := []schemas.Beat{
		{User: 2, Device: 7, Kind: schemas.Mobile, Age: 80_000, Idle: 1000},
		{User: 1, Device: 7, Kind: schemas.Mobile, Age: 120_000},
	}
	if len(again.Beats) != 2 || again.Beats[0] != want[0] || again.Beats[1] != want[1] {
		t.Fatalf("got %+v, want %+v", again.Beats, want)
	}
	if again.Sequence != 2 {
		t.Fatalf("sequence is %d, want 2: the frame that failed may be in the log", again.Sequence)
	}
}

func TestAgeIsCapped(t *testing.T) {
	t.Parallel()
	q := New(rules)
	add(t, q, 0, beat(1))
	q.Settle(0, sealed(t, q, 0), false)
	q.Flush()
	if b := sealed(t, q, 48*time.Hour); b.Beats[0].Age != schemas.MaxAge {
		t.Fatalf("age is %d, want %d", b.Beats[0].Age, schemas.MaxAge)
	}
}

func TestFramesAreCutAndUnansweredOnesBounded(t *testing.T) {
	t.Parallel()
	q := New(rules)
	users := schemas.MaxFrameRows*rules.MaxInFlight + 1
	for i := range users {
		add(t, q, 0, beat(schemas.UserID(i+1)))
	}
	var batches []*Batch
	for b := q.Seal(0); b != nil; b = q.Seal(0) {
		batches = append(batches, b)
		if len(b.Beats) != schemas.MaxFrameRows || b.Sequence != uint64(len(batches)) {
			t.Fatalf("frame %d has %d rows and sequence %d", len(batches), len(b.Beats), b.Sequence)
		}
	}
	if len(batches) != rules.MaxInFlight {
		t.Fatalf("%d frames, want %d", len(batches), rules.MaxInFlight)
	}
	q.Settle(0, batches[3], true)
	if b := sealed(t, q, 0); len(b.Beats) != 1 {
		t.Fatalf("%d rows, want the one that was left", len(b.Beats))
	}
}
