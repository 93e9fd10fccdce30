package virtual

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

const (
	second = schemas.Millis(1000)
	minute = 60 * second
	hour   = 60 * minute
)

// habits say how somebody spends a day with a device.
type habits struct {
	visits    int  // of the service, a day
	idles     bool // looks away for minutes at a time
	flaps     bool // the connection drops and comes back, often around a limit
	saysBye   float64
	beatEvery schemas.Millis
}

// day is what a device with these habits says between two instants. Times are
// whole milliseconds, all different.
func (h habits) day(random *rand.Rand, from, to schemas.Millis) []report {
	var all []report
	gap := (to - from) / schemas.Millis(h.visits)
	for visit := range schemas.Millis(h.visits) {
		at := from + visit*gap + rand64(random, gap/4)
		end := min(at+minute+rand64(random, gap/2), to-1)
		touched := at
		for at < end {
			if h.idles && random.IntN(40) == 0 {
				touched = at - rand64(random, 10*minute) // it tells of more than we saw
			} else if !h.idles || random.IntN(4) > 0 || at-touched > 7*minute {
				touched = at
			}
			all = append(all, report{at: at, idle: at - touched})
			switch {
			case h.flaps && random.IntN(10) == 0:
				at += 44*second + rand64(random, 2*second)
			case h.flaps && random.IntN(10) == 0:
				at += 200 + rand64(random, second)
				all = append(all, report{at: at, bye: true})
				at += 1 + rand64(random, minute)
			case h.flaps && random.IntN(20) == 0:
				at += 4*minute + rand64(random, 2*minute)
			default:
				at += h.beatEvery - rand64(random, second)
			}
		}
		if random.Float64() < h.saysBye {
			all = append(all, report{at: at, bye: true})
			if random.IntN(3) == 0 {
				all = append(all, report{at: at + 500, bye: true}) // twice
			}
		}
	}
	return all
}

func rand64(random *rand.Rand, below schemas.Millis) schemas.Millis {
	return schemas.Millis(random.Int64N(int64(max(below, 1))))
}

// person is a user with one device.
type person struct {
	user    schemas.UserID
	device  schemas.DeviceID
	kind    string
	reports []report
	refused int // of the reports
	late    int // reports made later than they were meant, while the endpoint took its time
	talks   bool
}

// steady is a person who beats from an instant on until another.
func steady(user schemas.UserID, from, to, every schemas.Millis) *person {
	p := &person{user: user, device: 7, kind: "web"}
	for at := from; at <= to; at += every {
		p.reports = append(p.reports, report{at: at})
	}
	return p
}

// sendAll sends what the person has to say, each at its instant, straight to a
// endpoint. What is refused with 503 is not repeated: the next beat says it again.
func (p *person) sendAll(w *world, base string) {
	for _, r := range p.reports {
		if now() > r.at {
			p.late++
		}
		time.Sleep(time.Until(r.at.Time()))
		status := w.post(base, gateway{}, row{User: p.user, Device: p.device, Kind: p.kind, Bye: r.bye, Idle: r.idle})
		switch status {
		case http.StatusAccepted:
		case http.StatusServiceUnavailable:
			p.refused++
		default:
			w.Errorf("user %d is answered %d", p.user, status)
		}
	}
}

// play lets people send what they have to say and waits until all have.
func (w *world) play(base string, people ...*person) {
	var all sync.WaitGroup
	for _, p := range people {
		all.Go(func() { p.sendAll(w, base) })
	}
	all.Wait()
}

// reported are the reports as they count: at a socket, whoever has touched the device within a heartbeat interval uses
// it until the next report, and so until a bye.
func (p *person) reported() []report {
	all := slices.Clone(p.reports)
	used := false
	for i := range all {
		if r := &all[i]; r.bye {
			r.used = used
		} else if used = p.talks && r.idle <= 15*second; used {
			r.idle = 0
		}
	}
	return all
}

// talk makes the person's reports through sockets: connecting for the first and
// after every bye or long silence, then saying how idle the person is, with a
// ping where that is known already. Before silences that are longer than the
// server waits the socket is lost without a word. What could not be said, a bye
// without a socket, is taken out of the reports.
func (p *person) talk(w *world, base string) {
	p.talks = true
	var s *socket
	var touched schemas.Millis
	var said []report
	for i, r := range p.reports {
		w.sleepTo(r.at)
		switch {
		case r.bye && s == nil:
			continue
		case r.bye:
			s.leave()
			s = nil
		case s == nil:
			s = w.connectIdle(base, p.user, p.device, p.kind, r.idle)
		case r.at-r.idle == touched:
			s.ping()
		default:
			s.say(fmt.Sprintf(`{"type":"activity","idle_ms":%d}`, r.idle))
		}
		said = append(said, r)
		touched = r.at - r.idle
		if s != nil && (i+1 == len(p.reports) || p.reports[i+1].at-r.at > 40*second) {
			time.Sleep(time.Millisecond)
			s.lose()
			s = nil
		}
	}
	p.reports = said
}
