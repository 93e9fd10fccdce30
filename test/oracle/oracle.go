package oracle

import (
	"cmp"
	"time"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/schemas"
)

// Transitions are those that the rules require for records, which are records of one partition of
// the heartbeats topic in the order of their offsets, with their append times. Records that cannot
// be decoded, and rows of users of another partition, are skipped. policy must be valid; logEpoch
// is 1 for the first log.
func Transitions(policy schemas.Policy, partition, partitions int32, logEpoch uint32,
	records []schemas.Record) []schemas.Transition {
	return Run(Log{Policy: policy, Partition: partition, Partitions: partitions, LogEpoch: logEpoch, Records: records})
}

// Log is the input of one partition.
type Log struct {
	Policy                schemas.Policy // in force from the beginning
	Partition, Partitions int32
	LogEpoch              uint32
	Records               []schemas.Record
	Losses                []Loss // in the order of Before
	Users                 identity.Users
	// MostDue is how many users limits change at one record; 0: 10,000.
	MostDue int
}

// Loss is a lossy restart before the record with the index Before. Indices are those of
// Log.Records.
type Loss struct {
	Before int
	// Kept are the records before Before that still exist: without a commit they determine the next
	// one. Skip is how many records from Before on disappeared before they were handled.
	Kept []int
	Skip int
	// Commit: the commit is lost, too.
	Commit bool
	// Epoch: the log was recreated or cut back; a new log epoch begins.
	Epoch bool
}

// Run returns the transitions that the rules require for a log.
func Run(log Log) []schemas.Transition { return run(log).out }

// Unsure says that the status of a user changed at the record with an offset: since then no gateway
// can report the user, or, if Since is 0, that has ended.
type Unsure struct {
	User   schemas.UserID
	Offset int64
	Since  schemas.Millis
}

// RunUnsure returns who the rules require to be written as unsure, and when that ends.
func RunUnsure(log Log) []Unsure { return run(log).unsure }

// RunCounts counts the visible users who are present at the end of a log, as others would see them: also while a change
// waits.
func RunCounts(log Log) (c schemas.Counts) {
	for _, u := range run(log).users {
		if u.hidden() || u.state == schemas.Offline {
			continue
		}
		if u.seen() == schemas.Away {
			c.Away++
		} else {
			c.Online++
		}
		for i, kind := range schemas.Kinds {
			if u.kinds&(1<<kind) != 0 {
				c.ByKind[i]++
			}
		}
	}
	return c
}

func run(log Log) *world {
	w := newWorld(&log)
	losses := log.Losses
	for i := 0; i < len(log.Records); i++ {
		for len(losses) > 0 && losses[0].Before <= i {
			loss := losses[0]
			losses = losses[1:]
			var again []int
			w, again = w.restart(loss)
			for _, index := range again {
				w.record(index)
			}
			i += loss.Skip
		}
		if i < len(log.Records) {
			w.record(i)
		}
	}
	return w
}

// world is all that is known of a partition.
type world struct {
	log   *Log
	epoch uint32
	base  int64 // offset from which versions count

	// The policy.
	policy                    schemas.Policy
	policyFrom                schemas.Millis
	present                   millis // online_ttl + offline_debounce
	lateness, silence, window millis
	interval, burst           millis
	breakerLimit              schemas.Millis

	clock
	users       map[schemas.UserID]*user
	statuses    map[schemas.UserID]schemas.Status
	names       map[schemas.UserID]schemas.Name   // of users who have a status, in text mode
	unsaved     map[schemas.UserID]bool           // whose names no status has
	left        map[schemas.UserID]schemas.Millis // until when the names of users who are gone are known
	tenants     map[string]*tenant
	born        []string                                   // tenants whose first policy the record brings
	judged      map[schemas.UserID]string                  // by the policies of these tenants
	judgedAt    map[schemas.UserID]schemas.Millis          // since when, of those whom a record named after that policy
	shown       map[schemas.UserID]schemas.Millis          // when users who had hidden showed again
	denied      map[schemas.UserID]map[schemas.UserID]bool // nil of a user from before a lossy restart: partial is then set
	partial     map[schemas.UserID]bool
	kept        uint32         // the log epoch that a record of the status topic names; 0: none does
	restartedAt schemas.Millis // the log time at the last lossy restart
	ticked      schemas.Millis // the log time of the newest tick that is not behind, or of the first record
	unowned     bool           // the record comes more than 5 s of presence time after that
	ownedFrom   schemas.Millis // the log time of the newest such tick at an unowned record; 0: there is none
	gateways    []*gateway
	lifeless    map[lifeless]*life
	numbered    []numbered
	notable     []notable
	disarmed    bool
	lost        []*life // all that ended
	nextRelease int64   // from when on the reports of the next lost life may leave, microseconds of presence time
	unsure      []Unsure
	out         []schemas.Transition
	newest      int   // index of the newest record that a transition names
	newestBase  int64 // the base of that version
	newestEpoch uint32

	// Of the record being applied.
	offset int64
	x      millis // evaluation clock
	before millis // the evaluation clock at the record before
	// reached is the instant being handled: that of the limit, but not before before, and then x.
	reached millis
	caused  map[schemas.UserID]int
	most    int  // when limits have changed so many more users, the others wait for the next record
	written int  // statuses, since the beginning
	ordered bool // the rows of the record come in their order
	ahead   bool // the limits of one user are handled, maybe beyond x
}

func newWorld(log *Log) *world {
	w := &world{log: log, epoch: log.LogEpoch, users: map[schemas.UserID]*user{},
		statuses: map[schemas.UserID]schemas.Status{}, names: map[schemas.UserID]schemas.Name{}, unsaved: map[schemas.UserID]bool{},
		left:    map[schemas.UserID]schemas.Millis{},
		tenants: map[string]*tenant{}, judged: map[schemas.UserID]string{}, judgedAt: map[schemas.UserID]schemas.Millis{},
		shown: map[schemas.UserID]schemas.Millis{}, denied: map[schemas.UserID]map[schemas.UserID]bool{}, partial: map[schemas.UserID]bool{},
		lifeless: map[lifeless]*life{}, newest: -1}
	w.setPolicy(log.Policy)
	return w
}

func (w *world) setPolicy(p schemas.Policy) {
	ms := func(d time.Duration) millis { return millis(d.Milliseconds()) }
	w.policy = p
	w.present = ms(p.OnlineTTL + p.OfflineDebounce)
	w.lateness, w.silence, w.window = ms(p.AllowedLateness), ms(p.GatewaySilence), ms(p.ReconnectWindow)
	w.interval, w.burst = ms(p.FlapInterval), millis(p.FlapBurst)*ms(p.FlapInterval)
	w.breakerLimit = schemas.Millis(p.BreakerLimit.Milliseconds())
}

// record applies the record of an index.
func (w *world) record(index int) {
	r := &w.log.Records[index]
	f, counts := w.log.read(r, max(w.now, r.Time))
	if !counts || w.refuses(&f, max(w.now, r.Time)) {
		return
	}
	w.offset, w.caused = r.Offset, map[schemas.UserID]int{}
	if w.offset-w.base > schemas.MaxVersionOffset {
		w.epoch, w.base = w.epoch+1, w.offset
	}
	w.kept = w.epoch
	if w.advance(r.Time, max(w.breakerLimit, w.policyFrom-w.stopped)) {
		w.disarmed = true
	}
	if w.ticked == 0 {
		w.ticked = w.now
	}
	w.unowned = w.presence(w.now)-w.presence(w.ticked) > maxStep
	w.before, w.x = w.x, max(w.x, w.presence(w.now)-w.lateness)
	w.reach(w.before)
	before := len(w.out)
	named := w.takeNames(&f)
	w.most = cmp.Or(w.log.MostDue, 10_000)
	w.evaluate()
	w.reach(w.x)
	w.judgeNamed(named)
	w.apply(&f)
	w.updateBreaker()
	w.settleNames()
	w.judgeBorn()
	if len(w.out) > before {
		w.newest, w.newestBase, w.newestEpoch = index, w.base, w.epoch
	}
}

// apply applies the frame.
func (w *world) apply(f *frame) {
	if f.Tick {
		if !f.Behind && w.unowned {
			w.ownedFrom = w.now
		}
		if !f.Behind {
			w.ticked = w.now
		}
		return
	}
	if f.Policy != nil {
		if *f.Policy != w.policy {
			w.setPolicy(*f.Policy)
			w.policyFrom = w.now
			for i := range w.numbered {
				w.numbered[i].silence = min(w.numbered[i].silence, w.silence)
			}
			for i := range w.notable {
				w.notable[i].silence = min(w.notable[i].silence, w.silence)
			}
		}
		return
	}
	if f.TenantPolicy != nil {
		w.applyTenantPolicy(f.TenantPolicy)
		return
	}
	if f.LeaseEnded != 0 {
		w.endLease(&f.Frame)
		return
	}
	gateway, fresh := w.hear(f)
	if !fresh {
		return
	}
	w.ordered = f.Sequence != 0
	if f.Begins && gateway.own() {
		gateway.begun = w.now
	}
	switch {
	case f.Override != nil:
		w.setOverride(f.VisibilityUser, *f.Override)
	case f.LastSeen != 0:
		w.setLastSeen(f.VisibilityUser, f.LastSeen)
	case f.Denies != "":
		w.setDenied(f.VisibilityUser, f.Denies)
	case f.VisibilityUser != 0:
		w.setVisibility(f.VisibilityUser, f.Visibility == schemas.Nobody)
	}
	if f.ErasedUser != 0 {
		w.erase(f.ErasedUser, f.ErasedUntil)
	}
	rows := f.Beats()
	row := schemas.Beat{}
	for i := 0; rows.Next(&row); i++ {
		if !f.forged[i] {
			if f.ForwardedAt != 0 {
				row.Age += max(0, w.now-f.ForwardedAt)
			}
			w.row(row, gateway)
		}
	}
	if f.Ends && gateway.own() && gateway.begun != 0 {
		w.loseUnnamed(gateway)
	}
}

// user returns what is known of a user, who is added if unknown; nil: a user of another partition.
func (w *world) user(id schemas.UserID) *user {
	if schemas.PartitionOf(id, w.log.Partitions) != w.log.Partition {
		return nil
	}
	u := w.users[id]
	if u == nil {
		u = &user{id: id}
		u.state, u.published.state = schemas.Offline, schemas.Offline
		w.users[id] = u
	}
	return u
}

// erase drops all that is known of a user and publishes that.
func (w *world) erase(id schemas.UserID, until schemas.Millis) {
	u := w.user(id)
	if u == nil {
		return
	}
	erased := &user{id: id}
	erased.state, erased.published.state = schemas.Offline, u.published.seen()
	delete(w.judged, id)
	delete(w.judgedAt, id)
	at := max(w.now, w.earliest(u))
	w.publish(erased, at, schemas.Erased, 0)
	last := &w.out[len(w.out)-1]
	last.ErasedUntil, last.Override = until, schemas.Override{} // whatever the policy says
	delete(w.users, id)
	w.user(id).since = at
	delete(w.names, id)
	delete(w.left, id)
	w.store(schemas.Status{User: id, State: schemas.Offline, Visibility: schemas.Everyone})
	delete(w.shown, id)
	delete(w.denied, id)
	delete(w.partial, id)
}

// forgetPresence drops what is not known of an offline user.
func (u *user) forgetPresence() {
	if u.state == schemas.Offline {
		u.kinds = 0
	}
	if u.state == schemas.Offline && !u.waits {
		u.silent, u.held, u.lost, u.published.kinds = false, 0, ongoing, 0
	}
	if u.state == schemas.Offline && !u.waits && !u.hidden() {
		u.lastActive = 0
		u.lastSeen = u.lastBye().time
	}
}

// forget drops what need not be known of an offline, visible user, and writes the status of a user
// whose status has changed.
func (w *world) forget(u *user) {
	u.forgetPresence()
	w.write(u)
	if u.state == schemas.Offline && !u.waits && !u.hidden() && len(u.byes) == 0 && u.bucket == nil &&
		u.since == 0 && u.publishedAt == 0 && len(u.reports) == 0 && u.override == (schemas.Override{}) {
		delete(w.users, u.id)
	}
}
