package coalesce

import (
	"cmp"
	"errors"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// ErrFull says that a report of a new device was refused because MaxDevices are known.
var ErrFull = errors.New("too many devices")

// Rules are the times and bounds of a Queue.
type Rules struct {
	// HeartbeatInterval is how often a device reports. A report after two silent intervals is
	// urgent.
	HeartbeatInterval time.Duration
	// Intervals are the heartbeat intervals of the devices of tenants with policies of their own. It is never
	// changed.
	Intervals map[string]time.Duration
	// ActiveAfterIdle: a report of a device that was touched for the first time in so long is
	// urgent. At most the detector's idle_after.
	ActiveAfterIdle time.Duration
	// ForgetAfter is how long a silent device is remembered.
	ForgetAfter time.Duration
	// NameAfter is after how long a silence of a device the name of its user is written again; 0: ForgetAfter. See
	// Silence.
	NameAfter time.Duration
	// NameAlways says that each row has the name of its user, as a key that is bound to tenants demands.
	NameAlways bool
	// MaxDevices bounds the remembered devices.
	MaxDevices int
	// MaxInFlight is how many frames may be unacknowledged.
	MaxInFlight int
	// MaxErased bounds the users who are remembered as erased, each for NamedEvery.
	MaxErased int
}

// Report is a beat or a bye of a device, or about its connection.
type Report struct {
	User   schemas.UserID
	Device schemas.DeviceID
	Kind   schemas.DeviceKind
	Bye    bool
	Held   bool           // a beat of a device whose connection is open: only what changes is sent
	Lost   bool           // its connection broke
	Ago    time.Duration  // of a lost one: the device was heard last so long ago
	Idle   schemas.Millis // at the moment of the report
	// Name is that of the user, with --ids text; else nil. Add does not keep the pointer.
	Name *schemas.Name
}

// maxUrgent is how many reports of one device may be urgent between two flushes: enough for a
// person who comes, leaves and comes again, and a bound on the cost of a device that flaps.
const maxUrgent = 4

// minAbsent is how many unsent reports of devices that have left are kept even if fewer devices are
// present.
const minAbsent = 1024

type key struct {
	user   schemas.UserID
	device schemas.DeviceID
}

// State of a slot and its report.
const (
	used      uint8 = 1 << iota
	unsent          // the report has still to be sent
	inFlight        // an earlier report has been sent and not been answered
	urgent          // the unsent report is
	inReady         // listed in Queue.ready
	inWaiting       // listed in Queue.waiting
)

// slot is one device; 56 bytes. Times are since the gateway started.
type slot struct {
	user     schemas.UserID
	received time.Duration // when the newest report came in
	touched  time.Duration // when the person last touched the device
	written  time.Duration // when the report before was acknowledged
	device   schemas.DeviceID
	// connection is that of a device that is held; 0: it is not.
	connection schemas.ConnectionID
	idle       uint32 // milliseconds; at most MaxIdle, which fits
	kind       uint8
	state      uint8
	bye        bool
	lost       bool  // its connection broke, which is not in the log yet
	told       bool  // the log says that it is held
	urgents    uint8 // urgent reports ...
	flush      uint8 // ... since this flush, modulo 256
}

// Queue holds what one gateway has to send to one partition. One goroutine at a time may use it.
// All times are durations since the gateway started, from a monotonic clock.
type Queue struct {
	rules Rules
	index map[key]int32 // into slots
	slots []slot
	free  []int32
	// ready may leave now, waiting with the next flush. Each holds a slot at most once; a slot that
	// has nothing to send any more is skipped.
	ready, waiting []int32
	left           []int32 // slots whose bye is in the log; forgotten at the next flush
	byes           int     // slots whose newest report is a bye
	peak           int     // most devices present at one time since no absent one was remembered
	dropAt         int     // number of byes at which the next search for reports to drop is due
	flights        int     // batches sealed and not settled
	flushes        uint8
	sequence       uint64
	sealed         time.Duration        // when the last batch was
	connections    schemas.ConnectionID // that were opened, modulo 2^32
	spare          []*Batch
	coalesced      int
	dropped        int
	names          []slotName // of the slots; empty until the first name comes, so always with --ids int
	erased         erasures
	silence        Silence
}

// New makes an empty queue.
func New(rules Rules) *Queue {
	q := &Queue{rules: rules, index: make(map[key]int32), sealed: -time.Hour}
	q.erased.all = 2 * unnamed // before any row
	q.silence.Set(0, rules.nameAfter())
	return q
}

// Follow changes the times by which the queue decides to those of rules.
func (q *Queue) Follow(now time.Duration, rules Rules) {
	rules.MaxDevices, rules.MaxInFlight, rules.MaxErased = q.rules.MaxDevices, q.rules.MaxInFlight, q.rules.MaxErased
	q.rules = rules
	q.silence.Set(now, rules.nameAfter())
}

// nameAfter is NameAfter, or its default.
func (r *Rules) nameAfter() time.Duration {
	return min(cmp.Or(r.NameAfter, r.ForgetAfter), r.ForgetAfter)
}

// interval is how often the devices of a user report; name is nil with --ids int.
func (r *Rules) interval(name *schemas.Name) time.Duration {
	if name != nil {
		if own, ok := r.Intervals[name.Tenant]; ok {
			return own
		}
	}
	return r.HeartbeatInterval
}

// Add takes a report that came in now. It replaces an unsent report of the same device. hurry tells
// whether a report should leave at once. The report's values must be in the ranges of a frame.
func (q *Queue) Add(now time.Duration, r Report) (hurry bool, err error) {
	k := key{r.User, r.Device}
	i, known := q.index[k]
	if r.Lost {
		if known {
			q.lose(now-r.Ago, i)
		}
		return false, nil
	}
	if !known {
		if len(q.index) >= q.rules.MaxDevices {
			return false, ErrFull
		}
		i = q.take(k)
	}
	s := &q.slots[i]
	touched := now - time.Duration(r.Idle)*time.Millisecond
	news := !known || s.bye != r.Bye || s.kind != uint8(r.Kind) && !r.Bye ||
		now-s.received >= 2*q.rules.interval(r.Name) ||
		touched-s.touched >= q.rules.ActiveAfterIdle
	if r.Bye && s.bye {
		return false, nil // it has left already
	}
	r.Held = !r.Bye && (r.Held || s.open())
	used := r.Held && r.Idle == 0
	if r.Held && s.open() && !q.erased.before(s.written, r.User) && s.kind == uint8(r.Kind) && !s.changed(touched, used) {
		if used {
			s.touched = touched
		}
		return false, nil
	}
	if r.Name != nil {
		q.name(i, r.Name, s.bye || now-s.received >= q.silence.At(now))
	}
	if s.state&unsent != 0 {
		q.coalesced++
	}
	if r.Bye != s.bye {
		s.bye = r.Bye
		q.byes += delta(r.Bye)
	}
	if r.Bye && known { // a bye has no kind and no idleness: they stay
		touched = s.touched
	} else {
		s.kind = uint8(r.Kind)
	}
	switch {
	case !r.Held:
		s.connection, s.lost = 0, s.lost && !r.Bye // what is lost is told first
	case !s.open():
		q.connections = max(1, q.connections+1)
		s.connection, s.lost = q.connections, false
	}
	s.received, s.touched = now, touched
	if s.idle = uint32(s.idleAt(now)); used {
		s.idle = 0
	}
	s.state |= unsent
	if news && q.mayHurry(s) {
		s.state |= urgent
	}
	q.list(i)
	q.peak = max(q.peak, q.Devices())
	if q.byes > max(q.allowedAbsent(), q.dropAt) {
		q.forgetLeft()
		if q.byes > q.allowedAbsent() {
			q.dropAbsent(now)
		}
	}
	return s.state&(urgent|inFlight) == urgent && q.flights < q.rules.MaxInFlight, nil
}

// open reports whether the newest report is of an open connection.
func (s *slot) open() bool { return s.connection != 0 && !s.bye && !s.lost }

// idleAt is how long the device has not been touched at an instant.
func (s *slot) idleAt(now time.Duration) schemas.Millis {
	return min(schemas.Millis((now-s.touched)/time.Millisecond), schemas.MaxIdle)
}

// changed reports whether an open connection has something to tell: the person uses the device again, or not any more,
// or has touched it meanwhile.
func (s *slot) changed(touched time.Duration, used bool) bool {
	return used != (s.idle == 0) || !used && (touched-s.touched).Abs() >= time.Second
}

// lose notes that the connection of a slot broke. Its device was heard last at an instant.
func (q *Queue) lose(heard time.Duration, i int32) {
	s := &q.slots[i]
	if !s.open() {
		return
	}
	s.connection, s.lost, s.received = 0, true, max(heard, s.touched)
	s.state |= unsent
	q.list(i)
}

// tellAgainAfter is after how long without a report an open connection is told again, in case that the detector has
// lost its state.
const tellAgainAfter = 30 * time.Minute

// tellAgainAfter is when the connection of a slot is told again. Those that were told together are not told again
// together.
func (s *slot) tellAgainAfter() time.Duration {
	return tellAgainAfter + tellAgainAfter/128*time.Duration(s.user%64)
}

// ReportAgain makes open connections report once more: the detector may have lost the gateway.
func (q *Queue) ReportAgain(now time.Duration) {
	q.tellAgain(now, func(s *slot) bool { return s.written < now })
}

func (q *Queue) tellAgain(now time.Duration, which func(s *slot) bool) {
	for i := range q.slots {
		if s := &q.slots[i]; s.state&(used|unsent) == used && s.open() && which(s) {
			if s.received = now; s.idle != 0 {
				s.idle = uint32(s.idleAt(now))
			}
			s.state |= unsent
			q.list(int32(i))
		}
	}
}

func delta(up bool) int {
	if up {
		return 1
	}
	return -1
}

// mayHurry counts the urgent reports of a device between two flushes.
func (q *Queue) mayHurry(s *slot) bool {
	if s.flush != q.flushes {
		s.flush, s.urgents = q.flushes, 0
	}
	s.urgents++
	return s.urgents <= maxUrgent
}

// list puts a slot where its unsent report belongs: nowhere while a report is in flight, because
// Settle does it.
func (q *Queue) list(i int32) {
	s := &q.slots[i]
	switch {
	case s.state&inFlight != 0:
	case s.state&urgent != 0:
		if s.state&inReady == 0 {
			s.state |= inReady
			q.ready = append(q.ready, i)
		}
	case s.state&(inWaiting|inReady) == 0:
		s.state |= inWaiting
		q.waiting = append(q.waiting, i)
	}
}

// Flush makes all waiting reports ready.
func (q *Queue) Flush() {
	q.flushes++
	q.forgetLeft()
	for _, i := range q.waiting {
		s := &q.slots[i]
		s.state &^= inWaiting
		if s.state&(unsent|inFlight|inReady) == unsent {
			s.state |= inReady
			q.ready = append(q.ready, i)
		}
	}
	q.waiting = q.waiting[:0]
}

// Ready tells whether Seal would return a batch.
func (q *Queue) Ready() bool { return len(q.ready) > 0 && q.flights < q.rules.MaxInFlight }

// Devices is how many devices are present: remembered, and without a bye.
func (q *Queue) Devices() int { return len(q.index) - q.byes }

// Unsent is how many reports have still to be sent or acknowledged.
func (q *Queue) Unsent() int {
	n := 0
	for i := range q.slots {
		if q.slots[i].state&(unsent|inFlight) != 0 {
			n++
		}
	}
	return n
}

// Flights is how many batches have not been settled.
func (q *Queue) Flights() int { return q.flights }

// Counts is how many reports were coalesced and dropped since the last call.
func (q *Queue) Counts() (coalesced, dropped int) {
	coalesced, dropped = q.coalesced, q.dropped
	q.coalesced, q.dropped = 0, 0
	return coalesced, dropped
}

// take gives a device a slot. A slot that was used before may still be listed, and stays so.
func (q *Queue) take(k key) int32 {
	var i int32
	if n := len(q.free); n > 0 {
		i, q.free = q.free[n-1], q.free[:n-1]
	} else {
		i = int32(len(q.slots))
		q.slots = append(q.slots, slot{})
	}
	listed := q.slots[i].state & (inReady | inWaiting)
	q.slots[i] = slot{user: k.user, device: k.device, state: used | listed, written: -1, flush: q.flushes}
	q.index[k] = i
	q.unname(i)
	return i
}

// forget frees the slot of a device that has nothing unsent or in flight.
func (q *Queue) forget(i int32) {
	s := &q.slots[i]
	delete(q.index, key{s.user, s.device})
	if s.bye {
		q.byes--
	}
	s.state &= inReady | inWaiting
	s.bye = false
	q.unname(i)
	q.free = append(q.free, i)
}
