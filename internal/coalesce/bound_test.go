package coalesce

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestSilentDevicesAreForgotten(t *testing.T) {
	t.Parallel()
	q := known(t, beat(1))
	q.Sweep(rules.ForgetAfter - 1)
	if q.Devices() != 1 {
		t.Fatal("forgotten too early")
	}
	q.Sweep(rules.ForgetAfter)
	if q.Devices() != 0 || len(q.index) != 0 {
		t.Fatal("not forgotten")
	}
	if !add(t, q, rules.ForgetAfter, beat(1)) {
		t.Fatal("the first beat after that is not urgent")
	}
}

func TestUnsentReportOfASilentDeviceIsKept(t *testing.T) {
	t.Parallel()
	q := New(rules)
	add(t, q, 0, beat(1))
	q.Sweep(time.Hour)
	if b := sealed(t, q, time.Hour); b.Beats[0].Age != 3_600_000 {
		t.Fatalf("age is %d, want an hour", b.Beats[0].Age)
	}
}

func TestMemoryInAnOutageIsBoundedByDevicesNotByTime(t *testing.T) {
	t.Parallel()
	const devices = 1500
	q := New(rules)
	var flight []*Batch
	for second := range 3600 {
		now := time.Duration(second) * time.Second
		for i := range devices / 15 {
			add(t, q, now, beat(schemas.UserID(1+(second*devices/15+i)%devices)))
		}
		q.Flush()
		for b := q.Seal(now); b != nil; b = q.Seal(now) {
			flight = append(flight, b)
		}
		if second%5 == 0 {
			for _, b := range flight {
				q.Settle(now, b, false)
			}
			flight = flight[:0]
			q.Sweep(now)
		}
	}
	if len(q.slots) != devices || len(q.ready) > devices || len(q.waiting) > devices {
		t.Fatalf("after an hour: %d slots, %d ready, %d waiting for %d devices", len(q.slots), len(q.ready), len(q.waiting), devices)
	}
}

func TestDevicesThatComeAndGoInAnOutageAreShedOldestFirst(t *testing.T) {
	t.Parallel()
	q := New(rules)
	const visitors = 100_000
	for i := range visitors {
		now := time.Duration(i) * time.Millisecond
		add(t, q, now, beat(schemas.UserID(i+1)))
		add(t, q, now, bye(schemas.UserID(i+1)))
	}
	if len(q.slots) > 2*minAbsent {
		t.Fatalf("%d slots for visitors of whom one was here at a time", len(q.slots))
	}
	_, shed := q.Counts()
	if unsent := q.Unsent(); unsent+shed != visitors || unsent < minAbsent/2 {
		t.Fatalf("%d kept and %d shed of %d", unsent, shed, visitors)
	}
	q.Flush()
	b := sealed(t, q, visitors*time.Millisecond)
	if !slices.ContainsFunc(b.Beats, func(b schemas.Beat) bool { return b.User == visitors }) {
		t.Fatal("the newest was shed")
	}
}

func TestEverybodyMayLeaveAtOnce(t *testing.T) {
	t.Parallel()
	q := New(rules)
	const users = 20_000
	for i := range users {
		add(t, q, 0, beat(schemas.UserID(i+1)))
	}
	for b := q.Seal(0); b != nil; b = q.Seal(0) {
		q.Settle(0, b, true)
	}
	for i := range users {
		add(t, q, 1, bye(schemas.UserID(i+1)))
	}
	if _, shed := q.Counts(); shed != 0 || q.Unsent() != users {
		t.Fatalf("%d byes shed, %d kept", shed, q.Unsent())
	}
}

func TestNewDeviceIsRefusedWhenFull(t *testing.T) {
	t.Parallel()
	few := rules
	few.MaxDevices = 1
	q := New(few)
	add(t, q, 0, beat(1))
	if _, err := q.Add(0, beat(2)); !errors.Is(err, ErrFull) {
		t.Fatalf("got %v, want ErrFull", err)
	}
	add(t, q, 0, beat(1))
}

// TestLastWrittenReportOfADeviceIsItsNewest: whatever fails and however reports,
// flushes and answers interleave, in the end the log's last word on a device is
// what the device said last, at the time at which it said it, and no sequence
// number was used twice.
func TestLastWrittenReportOfADeviceIsItsNewest(t *testing.T) {
	t.Parallel()
	type word struct {
		bye bool
		at  time.Duration
	}
	rapid.Check(t, func(t *rapid.T) {
		q := New(rules)
		var now time.Duration
		said, log := map[schemas.UserID]word{}, map[schemas.UserID]word{}
		var flight []*Batch
		sequence := uint64(0)
		seal := func() {
			for b := q.Seal(now); b != nil; b = q.Seal(now) {
				if sequence++; b.Sequence != sequence {
					t.Fatalf("sequence %d after %d", b.Sequence, sequence-1)
				}
				flight = append(flight, b)
			}
		}
		settle := func(i int, written bool) {
			b := flight[i]
			flight = append(flight[:i:i], flight[i+1:]...)
			if written {
				for _, beat := range b.Beats {
					log[beat.User] = word{beat.Bye, now}
				}
			}
			q.Settle(now, b, written)
		}
		t.Repeat(map[string]func(*rapid.T){
			"wait": func(t *rapid.T) { now += time.Duration(rapid.IntRange(1, 20_000).Draw(t, "ms")) * time.Millisecond },
			"report": func(t *rapid.T) {
				r := beat(schemas.UserID(rapid.IntRange(1, 5).Draw(t, "user")))
				r.Bye = rapid.Bool().Draw(t, "bye")
				must.Get(q.Add(now, r))(t)
				said[r.User] = word{r.Bye, now}
			},
			"flush": func(*rapid.T) { q.Flush(); seal() },
			"seal":  func(*rapid.T) { seal() },
			"sweep": func(*rapid.T) { q.Sweep(now) },
			"answer": func(t *rapid.T) {
				if len(flight) > 0 {
					settle(rapid.IntRange(0, len(flight)-1).Draw(t, "which"), rapid.Bool().Draw(t, "written"))
				}
			},
		})
		for q.Unsent() > 0 {
			q.Flush()
			seal()
			for len(flight) > 0 {
				settle(0, true)
			}
		}
		for user, last := range said {
			if got, ok := log[user]; !ok || got.bye != last.bye || got.at < last.at && !last.bye {
				t.Fatalf("user %d: the log says %+v, the device said %+v", user, got, last)
			}
		}
	})
}
