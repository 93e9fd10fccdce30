package liveness

import (
	"cmp"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// Output is what a record leads to. Apply appends to it; the caller empties it.
type Output struct {
	// Transitions in the order in which they are to be published.
	Transitions []schemas.Transition
	// Statuses to be written, newest last. That of an offline user whom everyone
	// may see stands for a tombstone.
	Statuses []schemas.Status
	// Misrouted are beats of users who belong to another partition.
	Misrouted []schemas.Beat
	// MisroutedVisibility is a user of another partition whose visibility the
	// record was to change; 0 if there is none.
	MisroutedVisibility schemas.UserID
	// Gateways that were lost and whose devices are all accounted for.
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

// Machine is the state of one partition. One goroutine may use it.
type Machine struct {
	policy                string
	partition, partitions int32
	logEpoch              uint32

	// The settings, in presence time.
	present     presence // online_ttl + offline_debounce
	away        presence // max(away_ttl, present)
	idleAfter   presence
	byeDebounce presence
	byeMemory   presence
	lateness    presence
	window      presence
	memory      presence // how far back a report can still matter
	cohortStep  int64    // microseconds between two releases
	announce    bool

	clock    clock
	index    index
	store    store
	wheel    wheel
	many     map[uint32]*user // users who do not fit in an entry
	hidden   map[schemas.UserID]hiddenUser
	gateways gateways
	queue    queue
	joining  []place
	history  history

	offset    int64    // of the record being applied
	evaluated presence // the evaluation clock at it
	ahead     bool     // limits are looked at that are beyond the evaluation clock
	ordinals  ordinals
	out       *Output
	replaying bool
	scratch   user
	block     block
	draining  int // chunk that is being emptied, and how far
	drained   int
	touch     func(entries []uint32)
	look      func(e uint32) (presence, bool)
	counts    Counts
}

// Counts are totals since the machine was made.
type Counts struct {
	Beats           uint64
	LostFrames      uint64 // missing in the sequences of gateways
	DuplicateFrames uint64
}

// New makes the machine of a partition of which nothing is known yet. The
// settings must be valid. logEpoch counts the lives of the partition's log, from
// 1; partitions is how many the heartbeats topic has.
func New(s Settings, partition, partitions int32, logEpoch uint32) *Machine {
	m := &Machine{
		policy: s.PolicyID(), partition: partition, partitions: partitions, logEpoch: logEpoch,
		present:   presence((s.OnlineTTL + s.OfflineDebounce).Milliseconds()),
		idleAfter: presence(s.IdleAfter.Milliseconds()), byeDebounce: presence(s.ByeDebounce.Milliseconds()),
		lateness: presence(s.AllowedLateness.Milliseconds()),
		window:   presence(s.ReconnectWindow.Milliseconds()), cohortStep: (1_000_000 + int64(s.CohortRate) - 1) / int64(s.CohortRate), announce: s.AnnounceDevices,
		index: newIndex(), many: map[uint32]*user{}, hidden: map[schemas.UserID]hiddenUser{},
	}
	m.away = max(presence(s.AwayTTL.Milliseconds()), m.present)
	m.byeMemory = max(m.present, m.byeDebounce)
	silence := presence(s.GatewaySilence.Milliseconds())
	m.gateways = newGateways(silence, max(m.present+m.window, silence)+m.lateness)
	// What a gateway was when a device was heard is known from its frame before.
	m.memory = max(m.present+m.window, m.byeMemory) + silence
	m.touch, m.look = m.touchEntries, m.lookAtTimer
	return m
}

// Apply takes the next record: its offset, its append time, and its frame. What
// it leads to is appended to out. It allocates nothing for a repeated beat.
func (m *Machine) Apply(offset int64, appended schemas.Millis, f *schemas.Frame, out *Output) {
	m.offset, m.out = offset, out
	m.history.before(offset, m.clock.now)
	m.clock.advance(appended)
	x := m.clock.presence() - m.lateness
	m.evaluated = x
	m.evaluate(x)
	if f.Tick {
		m.upkeep()
	} else {
		m.apply(f, x)
	}
	m.history.after(m.clock.presence(), x-m.memory, m.queue.busy(x))
	m.ordinals.forget()
	m.out = nil
}

// apply takes what the frame says.
func (m *Machine) apply(f *schemas.Frame, x presence) {
	row, lostFrames, fresh := m.gateways.hear(&m.clock, f, x)
	m.counts.LostFrames += lostFrames
	if !fresh {
		m.counts.DuplicateFrames++
		return
	}
	if f.VisibilityUser != 0 {
		m.applyVisibility(f)
	}
	if f.Rows() > 0 {
		m.applyBeats(f, row)
	}
}

// blockRows is how many rows are looked up together: enough loads to keep the
// memory busy, few enough to stay in the first cache.
const blockRows = 128

func (m *Machine) applyVisibility(f *schemas.Frame) {
	id := f.VisibilityUser
	e := m.index.find(&m.store, hash(id), id)
	u := &m.scratch
	switch {
	case e != none:
		m.load(e, u)
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
	t.Version = schemas.NewVersion(m.logEpoch, m.offset, n)
	m.out.Transitions = append(m.out.Transitions, *t)
}

// emitStatus writes what must be known of u after a restart. Its version is that
// of u's newest transition, or, when another record than this brought that about,
// the last before this record: between that transition and the next.
func (m *Machine) emitStatus(u *user) {
	if m.replaying {
		return
	}
	m.out.Statuses = append(m.out.Statuses, schemas.Status{
		User: u.id, State: u.state, Since: u.since, LastSeen: u.lastSeen, LastActive: u.lastActive, Kinds: u.kinds,
		Visibility: u.visibility(), Version: schemas.NewVersion(m.logEpoch, m.offset, m.ordinals.of(u.id)) - 1,
		SilentFrom: u.silentFrom, Held: u.held, Device: u.last,
	})
}

// sortTransitions orders those from i on by instant and user, so that the output
// does not depend on the order of timers.
func sortTransitions(transitions []schemas.Transition) {
	order := func(a, b schemas.Transition) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.User, b.User), cmp.Compare(a.Version, b.Version))
	}
	if !slices.IsSortedFunc(transitions, order) {
		slices.SortFunc(transitions, order)
	}
}
