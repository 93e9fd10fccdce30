package liveness

import (
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

// minute runs w for a minute of ticks while the users beat every 15 s, and returns how often each was
// taken and the greatest number of users of one Take.
func (w *world) minute(s *Sweep, users []schemas.Beat) (times map[schemas.UserID]int, most int) {
	var seen schemas.Seen
	times = map[schemas.UserID]int{}
	for i := range 240 {
		if i%60 == 0 {
			w.beats(users...)
		}
		w.until(w.now + 250)
		s.Take(w.m, &seen)
		most = max(most, len(seen.Users))
		for _, u := range seen.Users {
			times[u.User]++
		}
	}
	return times, most
}

func TestEveryPresentUserIsTakenOnceAMinuteAndOnlyAFewAtOnce(t *testing.T) {
	w, s := newWorld(t, Defaults()), &Sweep{Interval: 60_000}
	beats := make([]schemas.Beat, 2000)
	for i := range beats {
		beats[i] = schemas.Beat{User: schemas.UserID(i + 1), Device: 7, Kind: schemas.Mobile}
	}
	w.minute(s, beats)
	for range 3 {
		times, most := w.minute(s, beats)
		for _, b := range beats {
			if n := times[b.User]; n < 1 || n > 2 {
				t.Fatalf("user %d was taken %d times in a minute", b.User, n)
			}
		}
		if most > 2048/240+1 {
			t.Fatalf("%d users at once", most)
		}
	}
}

func TestAUserWhoFellSilentIsNotTakenAgain(t *testing.T) {
	w, s := newWorld(t, Defaults()), &Sweep{Interval: 60_000}
	beat := []schemas.Beat{{User: 1, Device: 7, Kind: schemas.Mobile}}
	w.minute(s, beat)
	w.minute(s, nil) // at most once more
	if times, _ := w.minute(s, nil); len(times) != 0 {
		t.Fatalf("taken without a heartbeat: %v", times)
	}
}

func TestAUserWhoChangedIsTakenAtTheNextTick(t *testing.T) {
	w, s := newWorld(t, Defaults()), &Sweep{Interval: 60_000}
	var seen schemas.Seen
	w.until(w.now + 250)
	s.Take(w.m, &seen)
	w.beats(schemas.Beat{User: 1, Device: 7, Kind: schemas.Mobile}, schemas.Beat{User: 1, Device: 8, Kind: schemas.Web, Idle: 600_000})
	for i := range w.out.Transitions {
		s.Changed(&w.out.Transitions[i])
	}
	w.until(w.now + 250)
	s.Take(w.m, &seen)
	want := []schemas.SeenDevice{{Device: 7, Kind: schemas.Mobile, State: schemas.Online, At: start + 250},
		{Device: 8, Kind: schemas.Web, State: schemas.Away, At: start + 250}}
	if len(seen.Users) == 0 || seen.Users[0] != (schemas.SeenUser{User: 1, Devices: 2}) || seen.Devices[0] != want[0] || seen.Devices[1] != want[1] {
		t.Fatalf("taken: %+v", seen)
	}
}

func TestWithAnIntervalOf0OnlyCountsAreTaken(t *testing.T) {
	w, s := newWorld(t, Defaults()), &Sweep{}
	var seen schemas.Seen
	w.beats(schemas.Beat{User: 1, Device: 7, Kind: schemas.Mobile})
	w.until(w.now + 60_000)
	if !s.Take(w.m, &seen) || seen.Counts == nil || len(seen.Users) != 0 {
		t.Fatalf("taken: %+v", seen)
	}
	if s.Take(w.m, &seen) {
		t.Fatal("something at the same instant again")
	}
}

func TestASweepAllocatesNothing(t *testing.T) {
	w, s := newWorld(t, Defaults()), &Sweep{Interval: 1000}
	for i := range 1000 {
		w.beats(schemas.Beat{User: schemas.UserID(i + 1), Device: 7, Kind: schemas.Mobile})
	}
	var seen schemas.Seen
	take := func() {
		w.m.clock.now += 250
		s.before = 0
		s.Take(w.m, &seen)
	}
	for range 5 {
		take()
	}
	s.counted = 1 << 50 // counts allocate, once a second
	if n := testing.AllocsPerRun(20, take); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkSweep measures one user of a round over a million.
func BenchmarkSweep(b *testing.B) {
	m, s := New(Defaults(), 0, 1, 1, 0), &Sweep{Interval: 60_000}
	var out Output
	var frame schemas.Frame
	beats, now, offset := make([]schemas.Beat, 1000), start, int64(0)
	for first := 0; first < 1_000_000; first += len(beats) {
		for i := range beats {
			beats[i] = schemas.Beat{User: schemas.UserID(first + i + 1), Device: 7, Kind: schemas.Mobile}
		}
		if err := frame.Decode(schemas.AppendFrame(nil, schemas.FrameHead{}, beats)); err != nil {
			b.Fatal(err)
		}
		m.Apply(offset, now, &frame, &out)
		out.Reset()
		offset++
	}
	var seen schemas.Seen
	s.Take(m, &seen)
	users, bytes := 0, 0
	for b.Loop() {
		m.clock.now += 250
		s.before = 0
		s.Take(m, &seen)
		users += len(seen.Users)
		bytes += len(seen.Encode())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(users), "ns/user")
	b.ReportMetric(float64(bytes)/float64(users), "bytes/user")
}
