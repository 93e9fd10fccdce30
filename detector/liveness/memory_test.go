package liveness

import (
	"runtime"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestAnOnlineUserWithOneDeviceTakesAtMost48Bytes(t *testing.T) {
	for name, held := range map[string]bool{"that beats": false, "that is held": true} {
		t.Run(name, func(t *testing.T) { testMemory(t, held) })
	}
}

func testMemory(t *testing.T, held bool) {
	if testing.Short() {
		t.Skip("-short: measures the heap of the whole process")
	}
	before := heapInUse()
	w := newWorld(t, Defaults())
	const users, rows = 200_000, 1000
	feed := func(beats ...schemas.Beat) {
		if !held {
			w.beats(beats...)
			return
		}
		for i := range beats {
			beats[i].Connection = schemas.ConnectionID(beats[i].User)
		}
		w.through("g", start, beats...)
	}
	beats := make([]schemas.Beat, rows)
	for first := 0; first < users; first += rows {
		for i := range beats {
			beats[i] = schemas.Beat{User: schemas.UserID(first + i + 1), Device: 1, Kind: schemas.Web}
		}
		w.now += 15
		feed(beats...)
		w.out.Reset()
	}
	w.out = Output{}
	w.m.ordinals.forget()
	perUser := float64(heapInUse()-before) / users
	t.Logf("%.1f bytes a user on the heap, %.1f by our own count", perUser, float64(w.m.Bytes())/users)
	if w.m.Users() != users || perUser > 48 {
		t.Errorf("%d users take %.1f bytes each", w.m.Users(), perUser)
	}

	// Nine in ten leave; the memory comes back within some seconds of ticks.
	for first := 0; first < users; first += rows {
		leaving := make([]schemas.Beat, 0, rows)
		for i := range rows {
			if id := first + i + 1; id%10 != 0 {
				leaving = append(leaving, schemas.Beat{User: schemas.UserID(id), Device: 1, Bye: true})
			}
		}
		feed(leaving...)
		w.out.Reset()
	}
	for w.now, w.out = w.now+1, (Output{}); w.m.Users() > users/10; w.until(w.now + 1000) {
		feed(schemas.Beat{User: 10, Device: 1, Kind: schemas.Web})
		w.out.Reset()
		if w.now > start+120_000 {
			break
		}
	}
	for range 75 {
		w.until(w.now + 1000)
		feed()
	}
	w.out = Output{}
	if left := float64(w.m.Bytes()); left > 48*users*0.2 {
		t.Errorf("%d users are left and hold %.0f bytes: index %d, entries %d, timers %d", w.m.Users(), left, w.m.index.bytes(), w.m.store.bytes(), w.m.wheel.bytes())
	}
}
