package liveness

import (
	"slices"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Output is the effect of a record. Apply appends to it; the caller resets it.
type Output struct {
	// Transitions in the order in which they are to be published.
	Transitions []schemas.Transition
	// Statuses to be written, newest last. Some are written as tombstones.
	Statuses []schemas.Status
	// Misrouted counts beats of users who belong to another partition.
	Misrouted int
	// MisroutedVisibility is a user of another partition whose visibility the record was to change;
	// 0: none.
	MisroutedVisibility schemas.UserID
	// MisroutedErasure is a user of another partition whom the record was to erase; 0: none.
	MisroutedErasure schemas.UserID
	// Gateways that were lost or drained and whose devices have all returned or been released.
	Gateways []GatewayEnd
	// Recounts are users who count as something else; see Machine.Recounts.
	Recounts []Recount
	// Tenant is the policy of a tenant that the record brought into force; nil: none. FirstPolicy: the tenant had
	// none before.
	Tenant      *schemas.TenantPolicy
	FirstPolicy bool
}

// Reset empties o. It reuses the memory, but not that of a storm.
func (o *Output) Reset() {
	o.Transitions, o.Statuses = emptied(o.Transitions), emptied(o.Statuses)
	o.Gateways, o.Recounts = o.Gateways[:0], emptied(o.Recounts)
	o.Misrouted, o.MisroutedVisibility, o.MisroutedErasure, o.Tenant, o.FirstPolicy = 0, 0, 0, nil, false
}

// emptied is s without elements. A large array that is hardly used is dropped.
func emptied[T any](s []T) []T {
	if cap(s) > 1<<14 && len(s) < cap(s)/8 {
		return nil
	}
	return s[:0]
}

// Machine is the state of one partition. One goroutine may use it.
type Machine struct {
	// MostDue is MostDue, but in tests. It must be the same for all records of a log.
	MostDue int
	// Recounts makes Apply append who counts as something else, for counts of parts of
	// the users. It may be changed between two of their calls.
	Recounts bool

	partition, partitions int32
	logEpoch              uint32
	bases                 []schemas.EpochBase // the offsets from which versions count, the newest last

	policy     schemas.PolicyInForce
	policyFrom schemas.Millis // log time from which the policy is in force

	// The policy, in presence time.
	pipeline        timing // of users whose tenants have no policy of their own
	timing                 // of the user at hand
	tenants         tenants
	longestAway     presence // of all timings
	lateness        presence
	reconnectWindow presence
	held            presence // how much longer devices of the frame may stay: forwarded, or their gateway is lost
	resumed         stamp    // when the gateway of the frame was heard again after its loss: what is older stays longer
	ordered         bool     // the rows of the record come in their order: its frame is numbered
	reach           presence // how far back a report can still matter
	foresight       presence // how much earlier frames matter for finding duplicates
	cohortStep      int64    // microseconds between two releases
	maxDevices      int
	flapBurst       presence // how much a bucket may lack
	flapInterval    presence
	breakerPercent  int64
	breakerLimit    schemas.Millis

	clock      clock
	base       schemas.Millis // of stamps
	olds       slab[oldTimes]
	index      index
	store      store
	wheel      wheel
	many       slab[*roomy] // users who do not fit in an entry
	hidden     map[schemas.UserID]hiddenUser
	overrides  map[schemas.UserID]*schemas.Override
	denied     map[schemas.UserID]denied
	privacy    map[schemas.UserID]privacyRecord
	fading     usersAt // when the next tick looks at a privacy record
	gateways   gateways
	breaker    breaker
	evaluation evaluation

	offset    int64    // of the record being applied
	evaluated presence // the evaluation clock at it
	ahead     bool     // limits beyond the evaluation clock are being handled
	ordinals  ordinals
	out       *Output
	adopting  bool                // no timers are set
	behind    bool                // limits that are due wait for the next record
	lossy     *schemas.Checkpoint // of the lossy restart under way; nil: the commit is lost
	// restartedAt is the log time at the last lossy restart; 0: there was none.
	restartedAt schemas.Millis
	scratch     user
	block       block
	capture     *capture // under way; nil: none is
	draining    int      // chunk that is being emptied, and how far
	drained     int
	prefetch    func(entries []uint32)
	look        func(e uint32) (presence, bool)
	counts      Counts
	online      schemas.Counts // visible users who are online, for Present
	away        schemas.Counts // those who are away
}

// Counts are totals since the machine was made.
type Counts struct {
	Beats           uint64
	LostFrames      uint64 // missing in the sequences of gateways
	DuplicateFrames uint64
	Evicted         uint64 // devices beyond max_devices of their users
	LeftOut         uint64 // changes published later or not at all, because their users changed too often
	BreakerTrips    uint64
	DeniesRefused   uint64 // changes of whom a user denies that would have exceeded schemas.MaxDenied
	NoPlace         uint64 // frames of gateways for which the table had no place
}

// New makes the machine of a partition of which nothing is known yet. The policy must be valid; it
// is in force from the beginning. logEpoch is 1 for the first log of the partition; partitions is
// the partition count of the heartbeats topic. key may be any number; if nobody can guess it,
// chosen user ids cannot waste memory.
func New(policy schemas.Policy, partition, partitions int32, logEpoch uint32, key uint64) *Machine {
	m := &Machine{
		MostDue: MostDue, partition: partition, partitions: partitions, logEpoch: logEpoch,
		bases: []schemas.EpochBase{{LogEpoch: logEpoch}}, index: newIndex(key),
		hidden: map[schemas.UserID]hiddenUser{}, privacy: map[schemas.UserID]privacyRecord{}, gateways: newGateways(),
		overrides: map[schemas.UserID]*schemas.Override{}, denied: map[schemas.UserID]denied{},
	}
	m.ordinals.key = (key ^ 0x9e3779b97f4a7c15) | 1
	m.policy = schemas.PolicyInForce{Policy: policy}
	m.setPolicy(policy, 0)
	m.prefetch, m.look = m.prefetchEntries, m.lookAtTimer
	return m
}

// setPolicy applies the settings of p, which is in force from the log time from on.
func (m *Machine) setPolicy(p schemas.Policy, from schemas.Millis) {
	ms := func(d time.Duration) presence { return presence(d.Milliseconds()) }
	m.pipeline = newTiming(p)
	m.lateness, m.reconnectWindow = ms(p.AllowedLateness), ms(p.ReconnectWindow)
	m.gateways.setSilence(ms(p.GatewaySilence), from)
	m.foresight = 3*m.gateways.silence + m.lateness
	m.setTimings(p)
	m.cohortStep = max(perSecond(int64(p.CohortRate), 1), perSecond(int64(p.CohortTotalRate), int64(m.partitions)))
	m.maxDevices = p.MaxDevices
	m.flapInterval = ms(p.FlapInterval)
	m.flapBurst = presence(p.FlapBurst) * m.flapInterval
	m.breakerPercent, m.breakerLimit = int64(p.BreakerPercent), schemas.Millis(p.BreakerLimit.Milliseconds())
}

// perSecond is the time between two events of one of several sources that together have n a second,
// in microseconds, rounded up so that the rate is never exceeded.
func perSecond(n, sources int64) int64 { return (1_000_000*sources + n - 1) / n }

// Policy is the policy in force, with the offset of its record.
func (m *Machine) Policy() schemas.PolicyInForce { return m.policy }

// Policies are those by which users are judged from now on, with the log times since which they are: the
// pipeline's, and after it what it is with the settings of each tenant that has a policy of its own.
func (m *Machine) Policies() []schemas.PolicyRecord {
	in := m.Policy()
	all := []schemas.PolicyRecord{{Policy: in.Policy, Since: in.At}}
	for i := 1; i < len(m.tenants.all); i++ {
		if t := &m.tenants.all[i]; t.policy != nil {
			all = append(all, schemas.PolicyRecord{Policy: in.Policy.For(t.policy), Since: max(in.At, t.from)})
		}
	}
	return all
}

// Apply applies the next record: its offset, its append time, and its frame. It appends the effect
// to out, and allocates nothing for a repeated beat.
func (m *Machine) Apply(offset int64, appended schemas.Millis, f *schemas.Frame, out *Output) {
	m.offset, m.out, m.behind = offset, out, false
	m.startEpochIfDue()
	before, stood := m.clock.now, m.clock.total
	begins := before == 0
	overdue := m.clock.advance(appended, max(m.breakerLimit, m.policyFrom-m.clock.stopped))
	m.breaker.disarmed = m.breaker.disarmed || overdue != 0
	m.rebase(m.clock.now)
	m.gateways.missTicks(&m.clock)
	if begins {
		m.wheel.restart(m.clock.presence() - m.lateness)
	}
	if m.clock.total != stood {
		m.rearmOverrides()
	}
	if 0 < overdue && overdue < before { // instants of the stop now count later, so a device may leave its cohort
		m.rearmAll()
	}
	from := m.evaluated
	m.evaluated = max(m.evaluated, m.clock.presence()-m.lateness)
	m.evaluation = evaluation{x: m.evaluated, from: from, at: -never, batch: m.evaluation.batch[:0]}
	m.evaluate()
	m.evaluated, m.evaluation.at = m.evaluation.x, m.evaluation.x
	m.judgeNamed()
	if f.Tick {
		if !f.Behind {
			m.gateways.tick(&m.clock)
		}
		m.upkeep()
	} else {
		m.apply(f)
	}
	m.updateBreaker()
	m.ordinals.forget()
	m.out = nil
}

// Offset is that of the record applied last.
func (m *Machine) Offset() int64 { return m.offset }

// apply applies the frame.
func (m *Machine) apply(f *schemas.Frame) {
	if f.Policy != nil {
		m.applyPolicy(*f.Policy)
		return
	}
	if f.TenantPolicy != nil {
		m.applyTenantPolicy(f.TenantPolicy)
		return
	}
	life, lostFrames, fresh := m.gateways.hear(&m.clock, f)
	m.counts.LostFrames += lostFrames
	if !fresh {
		m.counts.DuplicateFrames++
		return
	}
	if f.VisibilityUser != 0 {
		m.applyVisibility(f)
	}
	if f.ErasedUser != 0 {
		m.applyErasure(f)
	}
	holds := m.gateways.holds(life)
	if f.Begins && holds {
		l := &m.gateways.lives[life]
		l.begun, l.empty = m.clock.now, l.present == 0
	}
	if f.Rows() > 0 {
		m.applyBeats(f, life, holds)
	}
	if f.Ends && holds {
		m.endReplacement(life)
	}
}

// applyPolicy brings another policy into force. Changes that it makes due are published at the next
// record, and their instants are not before this one.
func (m *Machine) applyPolicy(p schemas.Policy) {
	if p == m.Policy().Policy {
		return
	}
	from := m.clock.now
	m.policy = schemas.PolicyInForce{Offset: m.offset, At: from, Policy: p}
	m.setPolicy(p, from)
	m.policyFrom = from
	m.rearmAll()
}

// startEpochIfDue begins another log epoch before versions run out of offsets.
func (m *Machine) startEpochIfDue() {
	if m.offset-m.versionBase() > schemas.MaxVersionOffset {
		m.StartEpoch(m.logEpoch+1, m.offset)
	}
}

// maxBases bounds how many log epochs a checkpoint has.
const maxBases = 4

// StartEpoch begins another log epoch, whose versions count from the offset base. Others call it between BeginLossy and
// EndLossy.
func (m *Machine) StartEpoch(epoch uint32, base int64) {
	m.logEpoch = epoch
	m.bases = append(slices.Clone(m.bases), schemas.EpochBase{LogEpoch: epoch, Offset: base})
	if len(m.bases) > maxBases {
		m.bases = m.bases[1:]
	}
}

// versionBase is the offset from which versions of the current log epoch count.
func (m *Machine) versionBase() int64 { return m.bases[len(m.bases)-1].Offset }

// blockRows is how many rows are looked up together: enough loads to keep the memory busy, few
// enough to stay in the first cache.
const blockRows = 128

func (m *Machine) applyVisibility(f *schemas.Frame) {
	if e, u := m.named(f.VisibilityUser, &m.out.MisroutedVisibility); u != nil {
		switch {
		case f.Override != nil:
			m.setOverride(u, *f.Override)
		case f.LastSeen != 0:
			m.setLastSeen(u, f.LastSeen)
		case f.Denies != "":
			m.setDenied(u, f.Denies)
		default:
			m.setVisibility(u, f.Visibility)
		}
		m.save(e, u, true)
	}
}

// named is the user whom a frame names, with the entry; nil, and misrouted, where it is one of another partition.
func (m *Machine) named(id schemas.UserID, misrouted *schemas.UserID) (uint32, *user) {
	u := &m.scratch
	if e := m.index.find(&m.store, m.index.hash(id), id); e != none {
		return e, m.load(e, u)
	}
	if m.foreign(id) {
		*misrouted = id
		return none, nil
	}
	return m.enter(id, u), u
}

// foreign reports whether the user belongs to another partition. Users with an entry do not.
func (m *Machine) foreign(id schemas.UserID) bool {
	return schemas.PartitionOf(id, m.partitions) != m.partition
}

// LogTime is the running maximum of the append times, 0 before the first record.
func (m *Machine) LogTime() schemas.Millis { return m.clock.now }

// LogEpoch is the log epoch of the versions to come.
func (m *Machine) LogEpoch() uint32 { return m.logEpoch }

// Stopped is since when the breaker stops presence time; 0: it does not.
func (m *Machine) Stopped() schemas.Millis { return m.clock.stopped }

// Users is how many users are in memory: those who are not offline, have a bye or a bucket, or are
// hidden.
func (m *Machine) Users() int { return m.store.live + len(m.hidden) }

// Counts are totals since the machine was made.
func (m *Machine) Counts() Counts {
	c := m.counts
	c.BreakerTrips, c.NoPlace = m.breaker.trips, m.gateways.overflow
	return c
}

// Bytes is the memory of the state, except that of gateways.
func (m *Machine) Bytes() int {
	// Reports beyond the second of a user are left out.
	const perMany, perHidden, perPrivacy, perOverride = 192, 48, 72, 128
	viewers := 0
	for _, list := range m.denied {
		viewers += cap(list.viewers)
	}
	return 8*viewers + m.index.bytes() + m.store.bytes() + m.wheel.bytes() + m.olds.bytes(24) + m.many.bytes(8) + m.many.used*perMany +
		len(m.hidden)*perHidden + len(m.privacy)*perPrivacy +
		len(m.overrides)*perOverride
}
