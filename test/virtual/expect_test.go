package virtual

import (
	"fmt"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
)

// report is something that the one device of a person said.
type report struct {
	at   schemas.Millis
	idle schemas.Millis
	bye  bool
	used bool // a bye: the device was in use until then
}

// change is what is expected of a transition.
type change struct {
	from, to             schemas.State
	at                   schemas.Millis
	cause                schemas.Cause
	lastSeen, lastActive schemas.Millis
	here                 bool // with the device's kind
}

func (c change) String() string {
	return fmt.Sprintf("%s→%s at %s, %s, seen %s, active %s, here %t", schemas.StateWord(c.from), schemas.StateWord(c.to), clock(c.at),
		schemas.CauseWord(c.cause), clock(c.lastSeen), clock(c.lastActive), c.here)
}

func changeOf(t *schemas.Transition) change {
	return change{t.From, t.To, t.At, t.Cause, t.LastSeen, t.LastActive, t.Kinds != 0}
}

// expect is what comes of a person with one device, whose reports are in the log
// at the instants at which they were sent, up to the instant end: section 4 of
// the design, in the simplest case. It knows nothing of records, partitions or
// gateways. byes are not waited on, and no gateway is lost.
func expect(s liveness.Settings, reports []report, end schemas.Millis) []change {
	e := &expectation{
		present: schemas.Millis((s.OnlineTTL + s.OfflineDebounce).Milliseconds()), away: schemas.Millis(s.AwayTTL.Milliseconds()),
		idle: schemas.Millis(s.IdleAfter.Milliseconds()), state: schemas.Offline,
	}
	for _, r := range reports {
		e.pass(r.at)
		e.hear(r)
	}
	e.pass(end)
	return e.out
}

type expectation struct {
	present, away, idle schemas.Millis

	state   schemas.State
	here    bool           // the device is present ...
	shown   bool           // ... and was when something was published last
	seen    schemas.Millis // the newest report
	touched schemas.Millis // by the person, as that report says
	active  schemas.Millis // last_active, as far as it is published or the device has left
	out     []change
}

// pass lets the limits pass that lie at or before the instant.
func (e *expectation) pass(to schemas.Millis) {
	if idle := e.touched + e.idle; e.here && e.state == schemas.Online && idle <= to && idle < e.seen+e.present {
		e.publish(schemas.Away, idle, schemas.Idle)
	}
	if gone := e.seen + e.present; e.here && gone <= to {
		e.here = false
		e.active = max(e.active, e.touched)
		switch {
		case e.away <= e.present:
			e.publish(schemas.Offline, gone, schemas.Silent)
		case e.state == schemas.Online:
			e.publish(schemas.Away, gone, schemas.Silent)
		default:
			e.publish(schemas.Away, gone, schemas.DevicesChanged)
		}
	}
	if over := e.seen + e.away; !e.here && e.state == schemas.Away && over <= to {
		e.publish(schemas.Offline, over, schemas.Silent)
	}
}

func (e *expectation) hear(r report) {
	if r.bye {
		if !e.here {
			return
		}
		if e.here, e.seen = false, r.at; r.used {
			e.touched = r.at
		}
		e.active = max(e.active, e.touched)
		e.publish(schemas.Offline, r.at, schemas.Bye)
		return
	}
	e.here, e.seen, e.touched = true, r.at, r.at-r.idle
	switch active := r.idle < e.idle; {
	case e.state == schemas.Offline && active:
		e.publish(schemas.Online, r.at, schemas.FirstBeat)
	case e.state == schemas.Offline:
		e.publish(schemas.Away, r.at, schemas.FirstBeat)
	case e.state == schemas.Away && active:
		e.publish(schemas.Online, r.at, schemas.ActiveAgain)
	case e.state == schemas.Online && !active:
		e.publish(schemas.Away, r.at, schemas.Idle)
	case e.here != e.shown:
		e.publish(e.state, r.at, schemas.DevicesChanged)
	}
}

func (e *expectation) publish(to schemas.State, at schemas.Millis, cause schemas.Cause) {
	if e.here {
		e.active = max(e.active, e.touched)
	}
	e.out = append(e.out, change{e.state, to, at, cause, e.seen, e.active, e.here})
	e.state, e.shown = to, e.here
	if to == schemas.Offline {
		e.active = 0
	}
}

// expected compares what was published of a person with what must come of the
// reports, as far as the log has got.
func (w *world) expected(p *person, got []schemas.Transition) {
	w.Helper()
	if p.refused > 0 || p.late > 0 {
		w.Errorf("of the reports of user %d %d were refused and %d late", p.user, p.refused, p.late)
	}
	log := w.tap.records[schemas.PartitionOf(w.id(p.user), int32(len(w.tap.records)))]
	end := log[len(log)-1].Time - schemas.Millis(w.config.Policy.AllowedLateness.Milliseconds())
	want := expect(w.config.Policy, p.reported(), end)
	if len(want) == 0 {
		w.Errorf("nothing is expected of user %d", p.user)
	}
	changes := changesOf(got)
	for i := range max(len(changes), len(want)) {
		if i >= len(changes) || i >= len(want) || changes[i] != want[i] {
			w.Errorf("user %d has %d changes, want %d; they differ at %d:\n%v\nwant\n%v", p.user, len(changes), len(want), i,
				changes[max(0, i-1):min(len(changes), i+2)], want[max(0, i-1):min(len(want), i+2)])
			return
		}
	}
}

func changesOf(transitions []schemas.Transition) []change {
	var changes []change
	for i := range transitions {
		changes = append(changes, changeOf(&transitions[i]))
	}
	return changes
}

func count(users map[schemas.UserID][]schemas.Transition) int {
	n := 0
	for _, transitions := range users {
		n += len(transitions)
	}
	return n
}
