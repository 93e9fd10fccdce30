package liveness

import (
	"slices"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Output is what a record leads to. Apply appends to it; the caller empties it.
type Output struct {
	// Transitions in the order in which they are to be published.
	Transitions []schemas.Transition
	// Statuses to be written, newest last. Some stand for a tombstone.
	Statuses []schemas.Status
	// Misrouted are beats of users who belong to another partition.
	Misrouted []schemas.Beat
	// MisroutedVisibility is a user of another partition whose visibility the
	// record was to change; 0 if there is none.
	MisroutedVisibility schemas.UserID
	// Gateways that are gone and whose devices are all accounted for.
	Gateways []GatewayEnd
}

// Reset empties o. It keeps memory for the next record, but not that of a storm.
func (o *Output) Reset() {
	o.Transitions, o.Statuses = emptied(o.Transitions), emptied(o.Statuses)
	o.Misrouted, o.Gateways, o.MisroutedVisibility = o.Misrouted[:0], o.Gateways[:0], 0
}

// emptied is s without elements. What is large is kept only while it is used.
func emptied[T any](s []T) []T {
	if cap(s) > 1<<14 && len(s) < cap(s)/8 {
		return nil
	}
	return s[:0]
}

// DefaultSlice is how many transitions and statuses of one record are put out at once.
const DefaultSlice = 10_000

// Machine is the state of one partition. One goroutine may use it.
type Machine struct {
	// Slice bounds what Apply and Continue put out of the limits that one record
	// reaches. It may be changed at any time.
	Slice int

	partition, partitions int32
	logEpoch              uint32
	bases                 []schemas.EpochBase // that versions count from, the newest last

	policies   []schemas.PolicyInForce // since the offset from which a restart re-reads
	policyID   string
	policyFrom schemas.Millis // log time from which the policy is in force
	policyAt   presence       // the evaluation clock at its record

	// The policy, in presence time.
	present        presence // online_ttl + offline_debounce
	away           presence // max(away_ttl, present)
	idleAfter      presence
	byeDebounce    presence
	byeMemory      presence
	lateness       presence
	window         presence
	reach          presence                            // how far back a report can still matter
	foresight      presence                            // how much earlier the frames begin that tell which others are duplicates
	carried        struct{ reach, foresight presence } // the same by policies before, while what they judged matters
	cohortStep     int64                               // microseconds between two releases
	announce       bool
	plain          flags // what a repeated beat must find as it is
	maxDevices     int
	flapBurst      presence // how much a bucket may lack
	flapInterval   presence
	breakerPercent int64
	breakerLimit   schemas.Millis

	clock      clock
	base       schemas.Millis // of stamps
	olds       olds
	index      index
	store      store
	wheel      wheel
	many       map[uint32]*user // users who do not fit in an entry
	hidden     map[schemas.UserID]hiddenUser
	gateways   gateways
	queue      queue
	joining    []place
	history    history
	breaker    breaker
	evaluation evaluation

	offset     int64    // of the record being applied
	evaluated  presence // the evaluation clock at it
	ahead      bool     // limits are looked at that are beyond the evaluation clock
	slice      slice
	ordinals   ordinals
	out        *Output
	replaying  bool
	rowsFrom   presence                          // from when on what devices said may matter
	adopting   bool                              // no timers are set
	lossy      bool                              // not all that a restart needs could be re-read
	restored   *schemas.Checkpoint               // the one that is being restored
	latest     schemas.Millis                    // that a transition names, without a checkpoint
	reread     map[schemas.UserID]schemas.Millis // last_seen of users as the re-reading found it, where a status said more
	silences   map[schemas.UserID]silence        // of users that such a record has silenced already
	resuming   map[schemas.UserID]int            // ordinals of a record that was published in part
	keptBack   []schemas.UserID                  // and those of its users whose tombstones are due
	resumeFrom schemas.PublishedUpTo             // how far it was published
	presumedAt schemas.Millis                    // log time of a lossy restart, until the next record is through
	presumed   []schemas.UserID                  // statuses of these are to be written with the next record
	scratch    user
	block      block
	draining   int // chunk that is being emptied, and how far
	drained    int
	touch      func(entries []uint32)
	look       func(e uint32) (presence, bool)
	counts     Counts
}

// Counts are totals since the machine was made.
type Counts struct {
	Beats           uint64
	LostFrames      uint64 // missing in the sequences of gateways
	DuplicateFrames uint64
	Evicted         uint64 // devices that made room for others of their users
	LeftOut         uint64 // changes that were not published, or later, because their users changed too often
	BreakerTrips    uint64
	NoPlace         uint64 // frames of gateways that are too many to be known
}

// New makes the machine of a partition of which nothing is known yet. The policy must be
// valid; it counts as being in force from the beginning. logEpoch counts the lives of the
// partition's log, from 1; partitions is how many the heartbeats topic has. key may be
// any number; one that nobody can guess keeps chosen user ids from costing memory.
func New(policy schemas.Policy, partition, partitions int32, logEpoch uint32, key uint64) *Machine {
	m := &Machine{
		Slice: DefaultSlice, partition: partition, partitions: partitions, logEpoch: logEpoch, bases: []schemas.EpochBase{{LogEpoch: logEpoch}},
		rowsFrom: -never, index: newIndex(key), many: map[uint32]*user{}, hidden: map[schemas.UserID]hiddenUser{}, gateways: newGateways(),
	}
	m.ordinals.key = (key ^ 0x9e3779b97f4a7c15) | 1
	m.policies = []schemas.PolicyInForce{{Policy: policy}}
	m.setPolicy(policy)
	m.touch, m.look = m.touchEntries, m.lookAtTimer
	return m
}

// setPolicy makes policy the one that is followed.
func (m *Machine) setPolicy(p schemas.Policy) {
	ms := func(d time.Duration) presence { return presence(d.Milliseconds()) }
	m.policyID = p.ID()
	m.present, m.idleAfter, m.byeDebounce = ms(p.OnlineTTL+p.OfflineDebounce), ms(p.IdleAfter), ms(p.ByeDebounce)
	m.away = max(ms(p.AwayTTL), m.present)
	m.byeMemory = max(m.present, m.byeDebounce)
	m.lateness, m.window = ms(p.AllowedLateness), ms(p.ReconnectWindow)
	m.gateways.setSilence(ms(p.GatewaySilence))
	m.reach, m.foresight = max(m.present+m.window, m.byeMemory), 2*m.gateways.silence+m.lateness
	m.cohortStep = max(perSecond(int64(p.CohortRate), 1), perSecond(int64(p.CohortTotalRate), int64(m.partitions)))
	m.announce, m.maxDevices = p.AnnounceDevices, p.MaxDevices
	if m.plain = flagMany | flagPresent | flagBye | flagKind; m.announce {
		m.plain |= flagKinds
	}
	m.flapInterval = ms(p.FlapInterval)
	m.flapBurst = presence(p.FlapBurst) * m.flapInterval
	m.breakerPercent, m.breakerLimit = int64(p.BreakerPercent), schemas.Millis(p.BreakerLimit.Milliseconds())
}

// perSecond is the time between two of n events, or of one of several sources of them, in
// microseconds, rounded up so that the rate is never exceeded.
func perSecond(n, sources int64) int64 { return (1_000_000*sources + n - 1) / n }

// Policy is the policy in force, and the offset of the record that brought it.
func (m *Machine) Policy() schemas.PolicyInForce { return m.policies[len(m.policies)-1] }

// Apply takes the next record: its offset, its append time, and its frame. What
// it leads to is appended to out. It allocates nothing for a repeated beat. It is false
// when there is more to put out than Slice: Continue must be called then, with the same
// frame, until it is true.
func (m *Machine) Apply(offset int64, appended schemas.Millis, f *schemas.Frame, out *Output) bool {
	m.slice = slice{before: m.clock, stops: m.breaker.stops, disarmed: m.breaker.disarmed, bases: m.bases}
	m.offset = offset
	m.startEpochIfDue()
	m.history.before(offset, m.clock.now)
	begins := m.clock.now == 0
	if overdue := m.clock.advance(appended, m.breakerLimit); overdue != 0 && !m.replaying {
		m.breaker.disarmed = true
		m.goOn(overdue)
	}
	m.replayGoOn(true)
	m.rebase(m.clock.now)
	if begins {
		m.wheel.restart(m.clock.presence() - m.lateness)
	}
	m.evaluated = max(m.evaluated, m.clock.presence()-m.lateness)
	m.evaluation = evaluation{x: m.evaluated, at: -never, batch: m.evaluation.batch[:0]}
	stop, stops := m.replayStop()
	if stops {
		m.evaluation.x = m.clock.at(stop.Start)
	}
	for user, n := range m.resuming {
		m.ordinals.set(user, n)
	}
	if !m.replaying {
		m.slice.kept, m.keptBack = m.keptBack, nil
		m.slice.resume, m.resumeFrom = m.resumeFrom, schemas.PublishedUpTo{}
	}
	return m.advance(f, out)
}

// Continue puts out the next slice of the record that Apply has taken.
func (m *Machine) Continue(f *schemas.Frame, out *Output) bool { return m.advance(f, out) }

// Offset is that of the record applied last.
func (m *Machine) Offset() int64 { return m.offset }

// Pending tells whether the record that Apply has taken has more to put out.
func (m *Machine) Pending() bool { return m.slice.pending }

// advance evaluates limits until the output is full or all is done; then it applies what
// the frame says.
func (m *Machine) advance(f *schemas.Frame, out *Output) bool {
	m.out = out
	m.slice.begin(out)
	m.tellPresumed()
	if m.outputFull() || !m.evaluate() {
		m.cut(f)
		return false
	}
	if stop, stops := m.replayStop(); stops {
		m.stopTime(m.evaluation.x, stop.Start)
	}
	m.evaluated = m.evaluation.x
	m.slice.resume = schemas.PublishedUpTo{}
	if f.Tick {
		m.upkeep()
	} else {
		m.apply(f)
	}
	m.replayGoOn(false)
	m.tendBreaker()
	m.endSlices()
	m.tendHistory()
	m.forgetStops()
	m.forgetPolicies()
	m.ordinals.forget()
	m.resuming, m.silences, m.out = nil, nil, nil
	if !m.replaying {
		m.presumedAt = 0
	}
	return true
}

// tendHistory finds out from when on what devices said may matter, and drops what a restart
// need not re-read.
func (m *Machine) tendHistory() {
	if m.evaluated-m.reach-m.foresight >= m.clock.at(m.policyFrom) {
		m.carried.reach, m.carried.foresight = 0, 0
	}
	reach := max(m.reach, m.carried.reach)
	from := m.evaluated
	if from < m.clock.at(m.policyFrom) {
		from = min(from, m.policyAt) // what is due since then waits for the policy
	}
	from -= reach
	if m.queue.busy(m.evaluated) { // the places of those who wait hang on one another
		from = min(from, m.rowsFrom)
	}
	m.rowsFrom = from
	m.history.after(m.clock.presence(), m.rowsFrom-max(m.foresight, m.carried.foresight))
}

// apply takes what the frame says.
func (m *Machine) apply(f *schemas.Frame) {
	if f.Policy != nil {
		m.applyPolicy(*f.Policy)
		return
	}
	life, lostFrames, fresh := m.gateways.hear(&m.clock, f)
	m.counts.LostFrames += lostFrames
	if !fresh {
		m.counts.DuplicateFrames++
		return
	}
	if m.replaying && m.clock.now < m.restored.RowsFrom {
		return
	}
	if f.VisibilityUser != 0 {
		m.applyVisibility(f)
	}
	if f.Rows() > 0 {
		m.applyBeats(f, life)
	}
}

// applyPolicy brings another policy into force. What it makes due is published at the
// next record, at no instant before this one.
func (m *Machine) applyPolicy(p schemas.Policy) {
	if p == m.Policy().Policy {
		return
	}
	for _, u := range m.many {
		if u.state != schemas.Offline && u.flaps.waiting == nil {
			u.flaps.bucket, u.flaps.publishedAt = schemas.Bucket{}, 0
		}
	}
	from := m.nextPolicyFrom()
	m.policies = append(slices.Clone(m.policies), schemas.PolicyInForce{Offset: m.offset, At: from, Policy: p})
	m.carried.reach, m.carried.foresight = max(m.carried.reach, m.reach), max(m.carried.foresight, m.foresight)
	m.setPolicy(p)
	if m.evaluated >= m.clock.at(m.policyFrom) { // else what waited for the policy before still waits
		m.policyAt = m.evaluated
	}
	m.policyFrom = from
	for e := range m.entriesLive() {
		u := m.load(e, &m.scratch)
		m.arm(e, u, true)
	}
}

// nextPolicyFrom is from when on a policy that comes now is in force. No two are from one
// instant: statuses name their policy by it.
func (m *Machine) nextPolicyFrom() schemas.Millis { return max(m.clock.now, m.policyFrom+1) }

// maxPolicies bounds how many policies a checkpoint tells of.
const maxPolicies = 4

// forgetPolicies drops those that were in force before the offset from which a restart
// would re-read.
func (m *Machine) forgetPolicies() {
	from, _ := m.history.replay()
	for len(m.policies) > 1 && (m.policies[1].Offset < from.offset || len(m.policies) > maxPolicies) {
		m.policies = m.policies[1:]
	}
}

// startEpochIfDue begins another log epoch before the offsets that versions can count are
// used up.
func (m *Machine) startEpochIfDue() {
	if !m.replaying && m.offset-m.versionBase() > schemas.MaxVersionOffset {
		m.startEpoch(m.logEpoch+1, m.offset)
	}
}

// maxBases bounds how many log epochs a checkpoint tells of.
const maxBases = 8

func (m *Machine) startEpoch(epoch uint32, base int64) {
	m.logEpoch = epoch
	m.bases = append(slices.Clone(m.bases), schemas.EpochBase{LogEpoch: epoch, Offset: base})
	if len(m.bases) > maxBases {
		m.bases = m.bases[1:]
	}
}

// versionBase is the offset from which versions count now.
func (m *Machine) versionBase() int64 { return m.bases[len(m.bases)-1].Offset }

// blockRows is how many rows are looked up together: enough loads to keep the
// memory busy, few enough to stay in the first cache.
const blockRows = 128

func (m *Machine) applyVisibility(f *schemas.Frame) {
	id := f.VisibilityUser
	e := m.index.find(&m.store, m.index.hash(id), id)
	u := &m.scratch
	switch {
	case e != none:
		u = m.load(e, u)
	case m.foreign(id):
		m.out.MisroutedVisibility = id
		return
	default:
		e = m.enter(id, u)
	}
	m.setVisibility(u, f.Visibility)
	m.save(e, u, true)
}

// foreign tells whether the user belongs to another partition. Known users were
// asked when they came.
func (m *Machine) foreign(id schemas.UserID) bool {
	return schemas.PartitionOf(id, m.partitions) != m.partition
}

// emit publishes t, whose version is made here.
func (m *Machine) emit(t *schemas.Transition) {
	n := m.ordinals.take(t.User)
	if m.replaying {
		return
	}
	t.Version = m.version(n)
	m.out.Transitions = append(m.out.Transitions, *t)
}

func (m *Machine) version(ordinal int) schemas.Version {
	return schemas.NewVersion(m.logEpoch, m.offset-m.versionBase(), ordinal)
}

// emitStatus writes what must be known of u after a restart. Its version is that
// of u's newest transition, or, when another record than this brought that about,
// the last before this record: between that transition and the next.
func (m *Machine) emitStatus(u *user) {
	if m.replaying {
		return
	}
	if u.state != schemas.Offline {
		m.refill(u, m.settled())
	}
	s := schemas.Status{
		User: u.id, State: u.state, Since: u.since, LastSeen: u.lastSeen, LastActive: u.lastActive, Kinds: u.kinds,
		Visibility: visibilityOf(u.hidden), Version: m.version(m.ordinals.of(u.id)) - 1,
		SilentFrom: u.silentFrom, Held: u.held, Drained: u.drained, Device: u.last,
		Bucket: u.flaps.bucket, PublishedAt: u.flaps.publishedAt, LeftOut: u.flaps.leftOut,
	}
	if s.Bucket != (schemas.Bucket{}) {
		s.PolicyAt = m.policyFrom
	}
	if w := u.flaps.waiting; w != nil {
		s.State, s.Since, s.Kinds, s.Visibility = w.state, w.since, w.kinds, visibilityOf(w.hidden)
		s.Pending = schemas.Pending{State: u.state, Kinds: u.kinds, Visibility: visibilityOf(u.hidden), Since: u.since, KindsAt: w.kindsAt,
			VisibilityAt: w.visibilityAt, Cause: w.cause, Device: w.device, KindsDevice: w.kindsDevice, Evicted: w.evicted}
	}
	for i := range u.reports {
		if r := &u.reports[i]; r.device == 0 {
			s.Presumed = schemas.Presumed{At: r.seen, Active: r.active, Kinds: s.Presumed.Kinds.With(r.kind)}
		}
	}
	m.out.Statuses = append(m.out.Statuses, s)
}
