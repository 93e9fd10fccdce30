package liveness

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

// gatewayWorld is a world of user 1 and device 7 behind one gateway that is heard every second.
type gatewayWorld struct{ *world }

func (w gatewayWorld) frame(begins, ends bool, rows ...schemas.Beat) {
	for i := range rows {
		rows[i].User, rows[i].Device, rows[i].Kind = 1, 7, schemas.Web
	}
	head := schemas.FrameHead{Gateway: "g", GatewayEpoch: start, Begins: begins, Ends: ends}
	w.record(schemas.AppendFrame(nil, head, rows))
}

func (w gatewayWorld) rows(rows ...schemas.Beat) { w.frame(false, false, rows...) }

func (w gatewayWorld) alive(seconds int) {
	for range seconds {
		w.until(w.now + 1000)
		w.rows()
	}
}

// opened opens connection 1 and has it open for some seconds.
func (w gatewayWorld) opened(seconds int) {
	w.rows(schemas.Beat{Connection: 1})
	w.alive(seconds)
}

// changes are the states that were entered, with the seconds since the start.
func (w gatewayWorld) changes() string {
	var all []string
	for _, t := range w.out.Transitions {
		at := float64(t.At-start) / 1000
		all = append(all, fmt.Sprintf("%s %g %s", schemas.StateWord(t.To), at, schemas.CauseWord(t.Cause)))
	}
	return strings.Join(all, ", ")
}

func TestAConnectionIsPresentWhileItIsOpenAndItsGatewayIsHeard(t *testing.T) {
	t.Parallel()
	open := func(c schemas.ConnectionID, age, idle schemas.Millis) schemas.Beat {
		return schemas.Beat{Connection: c, Age: age, Idle: idle}
	}
	closed := func(c schemas.ConnectionID, age schemas.Millis) schemas.Beat {
		return schemas.Beat{Connection: c, Age: age, Bye: true}
	}
	lost := func(c schemas.ConnectionID, age schemas.Millis) schemas.Beat {
		return schemas.Beat{Connection: c, Age: age, Lost: true}
	}
	beat := schemas.Beat{}
	const online = "online 0 first_beat"
	for name, c := range map[string]struct {
		run  func(w gatewayWorld)
		want string
	}{
		"for an hour without a row": {func(w gatewayWorld) { w.rows(open(1, 0, 0)); w.alive(3600) }, online},
		"its gateway falls silent: as after a beat with its last frame, and the reconnect window": {func(w gatewayWorld) {
			w.opened(100)
			w.until(start + 600_000)
		}, online + ", away 175 gateway_lost, offline 430 gateway_lost"},
		"its gateway is heard again within the reconnect window": {func(w gatewayWorld) {
			w.rows(open(1, 0, 0))
			for range 10 {
				w.alive(100)
				w.until(w.now + 39_000)
			}
		}, online},
		"and after it": {func(w gatewayWorld) {
			w.opened(100)
			w.until(w.now + 41_000)
			w.alive(600)
		}, online + ", away 175 gateway_lost, offline 430 gateway_lost"},
		"its gateway has a lease of an hour, and was heard until 4 s before the end": {func(w gatewayWorld) {
			w.rows(open(1, 0, 0))
			w.record(schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "g", GatewayEpoch: start, Leased: true}, nil))
			w.until(start + 3_600_000)
			w.record(schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "g", GatewayEpoch: start, LeaseEnded: 4000}, nil))
			w.until(start + 4_000_000)
		}, online + ", away 3671 gateway_lost, offline 3926 gateway_lost"},
		"closed": {func(w gatewayWorld) {
			w.opened(100)
			w.rows(closed(1, 2000))
			w.alive(10)
		}, online + ", offline 98 bye"},
		"closed two minutes ago: at the earliest instant that is not over": {func(w gatewayWorld) {
			w.opened(1000)
			w.rows(closed(1, 120_000))
			w.alive(10)
		}, online + ", offline 954.751 bye"},
		"lost: as after a beat at that instant": {func(w gatewayWorld) {
			w.opened(100)
			w.rows(lost(1, 2000))
			w.alive(600)
		}, online + ", away 143 silent, offline 398 silent"},
		"lost two minutes ago": {func(w gatewayWorld) {
			w.opened(1000)
			w.rows(lost(1, 120_000))
			w.alive(600)
		}, online + ", away 999.751 silent, offline 1254.751 silent"},
		"idle, and active again": {func(w gatewayWorld) {
			w.opened(1000)
			w.rows(open(1, 0, 60_000))
			w.alive(500)
			w.opened(1000)
		}, online + ", away 1240 idle, online 1500 active_again"},
		"the connection before is closed after the next is open": {func(w gatewayWorld) {
			w.opened(100)
			w.rows(open(2, 0, 0))
			w.alive(1)
			w.rows(closed(1, 0), lost(1, 0))
			w.alive(600)
		}, online},
		"and known before that": {func(w gatewayWorld) {
			w.opened(100)
			w.rows(lost(1, 0))
			w.rows(open(2, 500, 0))
			w.alive(600)
			w.rows(closed(2, 0))
		}, online + ", offline 700 bye"},
		"what comes again, or too late, changes nothing": {func(w gatewayWorld) {
			w.opened(10)
			w.rows(lost(1, 0))
			w.alive(1)
			w.rows(open(2, 0, 0))
			w.alive(1)
			w.rows(closed(2, 0))
			for range 40 {
				w.alive(1)
				age := w.now - start
				w.rows(open(1, age, 0), open(1, age-9000, 0), open(2, age-11_000, 0), lost(1, age-10_000), closed(2, age-12_000))
			}
		}, online + ", offline 12 bye"},
		"it was closed before it was known to be open": {func(w gatewayWorld) {
			w.rows(closed(1, 0))
			w.alive(1)
			w.rows(open(1, 1000, 0))
			w.alive(10)
		}, ""},
		"closed by a request that overtook the one that it was open": {func(w gatewayWorld) {
			w.rows(closed(1, 0))
			w.alive(1)
			w.rows(open(1, 500, 0))
			w.alive(600)
		}, ""},
		"closed while a replacement was under way that named it": {func(w gatewayWorld) {
			w.opened(100)
			w.frame(true, false)
			w.rows(closed(1, 0))
			w.alive(1)
			w.frame(false, true, open(1, 0, 0))
			w.alive(600)
		}, online + ", offline 100 bye"},
		"lost before a replacement that still named it": {func(w gatewayWorld) {
			w.opened(100)
			w.rows(lost(1, 0))
			w.alive(1)
			w.frame(true, true, open(1, 0, 0))
			w.alive(600)
		}, online + ", away 145 silent, offline 400 silent"},
		"lost by a replacement that did not name it, and named by the next": {func(w gatewayWorld) {
			w.opened(100)
			w.frame(true, true)
			w.alive(1)
			w.frame(true, true, open(1, 0, 0))
			w.alive(600)
		}, online},
		"two that opened before the one before them was lost": {func(w gatewayWorld) {
			w.opened(100)
			w.rows(lost(1, 0))
			w.rows(open(2, 3000, 0))
			w.rows(open(3, 2000, 0), closed(2, 0))
			w.alive(600)
		}, online},
		"an end that seems older, because another leader's clock is behind": {func(w gatewayWorld) {
			for i, row := range []schemas.Beat{open(1, 0, 0), {Bye: true, Age: 50}} {
				row.User, row.Device, row.Kind = 1, 7, schemas.Web
				head := schemas.FrameHead{Gateway: "g", GatewayEpoch: start, Sequence: uint64(i + 1)}
				w.record(schemas.AppendFrame(nil, head, []schemas.Beat{row}))
			}
			w.alive(600)
		}, online + ", offline 0 bye"},
		"beats of a held device end nothing": {func(w gatewayWorld) {
			w.opened(1)
			w.rows(beat)
			w.alive(600)
			w.rows(closed(1, 0))
		}, online + ", offline 601 bye"},
		"a replacement that names it": {func(w gatewayWorld) {
			w.opened(100)
			w.frame(true, false)
			w.alive(1)
			w.rows(open(1, 5000, 0))
			w.frame(false, true)
			w.alive(600)
		}, online},
		"a replacement that does not": {func(w gatewayWorld) {
			w.opened(100)
			w.frame(true, true)
			w.alive(600)
		}, online + ", away 145 silent, offline 400 silent"},
		"a replacement that began in an earlier life": {func(w gatewayWorld) {
			w.rows(open(1, 0, 0))
			w.frame(true, false)
			w.until(w.now + 60_000)
			w.rows(open(1, 0, 0))
			w.frame(false, true)
			w.alive(600)
		}, online},
		"through a gateway of no process it is a beat": {func(w gatewayWorld) {
			w.record(schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "g", GatewayEpoch: start, Forwarded: true},
				[]schemas.Beat{{User: 1, Device: 7, Kind: schemas.Web, Connection: 1}}))
			w.until(start + 600_000)
		}, online + ", away 75 silent, offline 300 silent"},
	} {
		t.Run(name, func(t *testing.T) {
			w := gatewayWorld{newWorld(t, Defaults())}
			if c.run(w); w.changes() != c.want {
				t.Errorf("user 1 is\n%s\nwant\n%s", w.changes(), c.want)
			}
		})
	}
}

// A gateway tells of the connections of user 1 in any order, some of it twice, and replaces them meanwhile.
func TestADeviceIsPresentIfItsNewestConnectionIsOpenInWhateverOrderThatIsTold(t *testing.T) {
	t.Parallel()
	type record struct {
		at           schemas.Millis
		begins, ends bool
		row          schemas.Beat
	}
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 0))
		until := func(n int64) schemas.Millis { return schemas.Millis(r.Int64N(n)) }
		var log []record
		tell := func(at schemas.Millis, row schemas.Beat) {
			for range 1 + r.IntN(3)/2 {
				written := at + until([]int64{50, 500, 5000}[r.IntN(3)])
				row.Age = max(0, written-at-until(300))
				log = append(log, record{at: written, row: row})
			}
		}
		var newest, before schemas.ConnectionID // 0: ended
		now, replaced := start+1000, start
		for c := schemas.ConnectionID(1); c < 12; c++ {
			end := schemas.Beat{Bye: r.IntN(2) == 0}
			end.Lost = !end.Bye
			switch begins := now - 1 - until(800); r.IntN(4) {
			case 0, 1:
				before, newest = newest, c
				if tell(now, schemas.Beat{Connection: c}); before != 0 {
					end.Connection = before
					tell(now+until(4000), end)
				}
			case 2:
				if end.Connection, newest = newest, 0; end.Connection != 0 {
					tell(now, end)
				}
			case 3: // the list is made now
				if begins < replaced {
					continue
				}
				replaced = now + 1 + until(6000)
				log = append(log, record{at: begins, begins: true}, record{at: replaced, ends: true,
					row: schemas.Beat{Connection: newest, Age: max(0, replaced-now-until(300))}})
			}
			now += 1000 + until([]int64{1000, 10_000, 60_000}[r.IntN(3)])
		}
		for at := start; at < now+60_000; at += 2000 {
			log = append(log, record{at: at})
		}
		slices.SortStableFunc(log, func(a, b record) int { return cmp.Compare(a.at, b.at) })
		w := gatewayWorld{newWorld(t, Defaults())}
		for _, f := range log {
			w.until(f.at)
			if f.row.Connection != 0 {
				w.frame(f.begins, f.ends, f.row)
			} else {
				w.frame(f.begins, f.ends)
			}
		}
		if state := w.m.View(1).State; (state == "online") != (newest != 0) {
			t.Fatalf("seed %d: user 1 is %s, and its newest connection %d: %s", seed, state, newest, w.changes())
		}
	}
}
