package liveness

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

// world feeds a machine frames of one gateway-less producer.
type world struct {
	t      *testing.T
	m      *Machine
	out    Output
	frame  schemas.Frame
	now    schemas.Millis
	offset int64
}

const start = schemas.Millis(1_763_700_000_000)

func newWorld(t *testing.T, s Settings) *world {
	return &world{t: t, m: New(s, 0, 1, 1, 0), now: start}
}

func (w *world) record(value []byte) {
	w.t.Helper()
	if err := w.frame.Decode(value); err != nil {
		w.t.Fatal(err)
	}
	w.m.Apply(w.offset, w.now, &w.frame, &w.out)
	w.offset++
}

func (w *world) beats(beats ...schemas.Beat) {
	w.record(schemas.AppendFrame(nil, schemas.FrameHead{}, beats))
}

// until ticks every 250 ms up to the instant.
func (w *world) until(at schemas.Millis) {
	for w.now < at {
		w.now = min(at, w.now+250)
		w.record(schemas.AppendTick(nil))
	}
}

func TestSilenceTurnsOnlineToAwayToOfflineAtTheExactInstants(t *testing.T) {
	w := newWorld(t, Defaults())
	w.beats(schemas.Beat{User: 1, Device: 7, Kind: schemas.Mobile})
	w.until(start + 400_000)
	want := []struct {
		to    schemas.State
		at    schemas.Millis
		cause schemas.Cause
	}{{schemas.Online, start, schemas.FirstBeat}, {schemas.Away, start + 45_000, schemas.Silent}, {schemas.Offline, start + 300_000, schemas.Silent}}
	if len(w.out.Transitions) != len(want) {
		t.Fatalf("got %v", w.out.Transitions)
	}
	for i, tr := range w.out.Transitions {
		if tr.To != want[i].to || tr.At != want[i].at || tr.Cause != want[i].cause || tr.LastSeen != start {
			t.Errorf("transition %d: got %+v, want %+v", i, tr, want[i])
		}
	}
	if w.m.Users() != 0 {
		t.Errorf("%d users are still kept", w.m.Users())
	}
}

// Gateways send repeats with their next flush, up to a second after they came.
func TestARepeatThatWaitedWhileItsUserTurnedAwayMakesNobodyOnlineAgain(t *testing.T) {
	w := newWorld(t, Defaults())
	w.beats(schemas.Beat{User: 1, Device: 7, Kind: schemas.Mobile})
	repeat := func(received, written schemas.Millis) {
		w.until(start + written)
		w.beats(schemas.Beat{User: 1, Device: 7, Kind: schemas.Mobile, Age: written - received, Idle: received})
	}
	for at := schemas.Millis(14_500); at < 290_000; at += 15_000 {
		repeat(at, at)
	}
	repeat(299_500, 300_400)
	repeat(314_500, 314_500)
	w.until(start + 320_000)
	want := []schemas.Millis{start, start + 300_000}
	for i, tr := range w.out.Transitions {
		if i >= len(want) || tr.At != want[i] {
			t.Errorf("transition %d: %+v", i, tr)
		}
	}
	if len(w.out.Transitions) != len(want) {
		t.Errorf("%d transitions, want online and away", len(w.out.Transitions))
	}
}

func BenchmarkBeats(b *testing.B) {
	for _, users := range []int{1_000_000, 10_000_000} {
		for _, order := range []string{"same", "shuffled"} {
			b.Run(fmt.Sprintf("users=%dM/order=%s", users/1_000_000, order), func(b *testing.B) {
				benchmarkBeats(b, users, 1, order == "shuffled")
			})
		}
	}
	b.Run("users=1M/devices=2", func(b *testing.B) { benchmarkBeats(b, 1_000_000, 2, true) })
	b.Run("users=1/devices=100k", func(b *testing.B) { benchmarkBeats(b, 1, 100_000, false) }) // an attack: each evicts
}

// benchmarkBeats measures repeated beats of all devices of the users, or new devices where a user has too many. In the
// same order is what gateways send whose devices beat at regular intervals; shuffled, every frame names users that came
// at other times, which is the worst there is.
func benchmarkBeats(b *testing.B, users, devices int, shuffled bool) {
	const rows = 1000
	all := users * devices
	m := New(Defaults(), 0, 1, 1, 0)
	var out Output
	var frame schemas.Frame
	beats := make([]schemas.Beat, rows)
	frames := func(user func(n int) int) (values [][]byte) {
		for first := 0; first < all; first += rows {
			for i := range beats {
				n := user(first + i)
				beats[i] = schemas.Beat{User: schemas.UserID(n%users + 1), Device: schemas.DeviceID(7 + n/users),
					Kind: schemas.Mobile, Age: schemas.Millis(i % 100)}
			}
			values = append(values, schemas.AppendFrame(nil, schemas.FrameHead{}, beats))
		}
		return values
	}
	values := frames(func(n int) int { return n })
	now, offset := start, int64(0)
	apply := func(value []byte) {
		if err := frame.Decode(value); err != nil {
			b.Fatal(err)
		}
		m.Apply(offset, now, &frame, &out)
		out.Reset()
		offset++
	}
	// One round of all users takes an interval of 15 s.
	perMilli := max(1, len(values)/15_000)
	step := max(1, schemas.Millis(15_000/len(values)))
	advance := func(n int) {
		if n%perMilli == 0 {
			now += step
		}
	}
	for n, v := range values {
		apply(v)
		advance(n)
	}
	if shuffled {
		order := rand.New(rand.NewPCG(1, 2)).Perm(all)
		values = frames(func(n int) int { return order[n] })
		for n, v := range values { // timers and times settle into the new order
			apply(v)
			advance(n)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	n := 0
	for b.Loop() {
		apply(values[n%len(values)])
		advance(n)
		n++
	}
	b.ReportMetric(float64(n)*rows/b.Elapsed().Seconds()/1e6, "Mbeats/s")
	b.ReportMetric(float64(m.Bytes())/float64(m.Users()), "B/user")
}
