package oracle

import (
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Transitions are what the rules say comes of records, which are records of one
// partition of the heartbeats topic in the order of their offsets, with their
// append times. Records that cannot be decoded, and rows of users of another
// partition, are skipped. policy must be valid; logEpoch counts the lives of the log
// from 1.
func Transitions(policy schemas.Policy, partition, partitions int32, logEpoch uint32, records []schemas.Record) []schemas.Transition {
	return Run(Log{Policy: policy, Partition: partition, Partitions: partitions, LogEpoch: logEpoch, Records: records})
}

// Log is what happens to one partition.
type Log struct {
	Policy                schemas.Policy // in force from the beginning
	Partition, Partitions int32
	LogEpoch              uint32
	Records               []schemas.Record
	Losses                []Loss // in the order of Before
}

// Loss is a restart that cannot re-read all it needs, when the record with the index
// Before would be the next. Indices are those of Log.Records.
type Loss struct {
	Before int
	// Kept are the records before Before that are still there: without a commit they tell
	// which is next. Skip is how many from Before on are never seen, because they went
	// before they were handled.
	Kept []int
	Skip int
	// Commit tells that the commit is lost, too.
	Commit bool
	// Epoch tells that the log is another one or was cut back: a new log epoch begins.
	Epoch bool
}

// Run is what the rules say comes of a log.
func Run(log Log) []schemas.Transition {
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
	return w.out
}

// world is all that is known of a partition.
type world struct {
	log   *Log
	epoch uint32
	base  int64 // offset from which versions count

	// The policy.
	policy                       schemas.Policy
	policyFrom                   schemas.Millis
	present                      millis // online_ttl + offline_debounce
	away, idleAfter, byeDebounce millis
	lateness, silence, window    millis
	interval, burst              millis
	breakerLimit                 schemas.Millis

	clock
	users       map[schemas.UserID]*user
	statuses    map[schemas.UserID]schemas.Status
	statusEpoch uint32  // the greatest log epoch that one has named
	presumed    []*user // whose statuses are to be written
	gateways    []*gateway
	origins     map[origin]*life
	numbered    []numbered
	bornLost    *life
	bornDrained *life
	disarmed    bool
	queue       []place
	nextRelease int64 // the earliest that the queue gives, microseconds of presence time
	out         []schemas.Transition
	newest      int   // index of the newest record that a transition names ...
	newestBase  int64 // ... counting from this offset

	// Of the record being applied.
	offset int64
	x      millis // evaluation clock
	caused map[schemas.UserID]int
}

func newWorld(log *Log) *world {
	w := &world{log: log, epoch: log.LogEpoch, users: map[schemas.UserID]*user{}, statuses: map[schemas.UserID]schemas.Status{},
		origins: map[origin]*life{}, bornLost: &life{end: byEpoch}, bornDrained: &life{end: byDrain}, newest: -1}
	w.setPolicy(log.Policy)
	return w
}

func (w *world) setPolicy(p schemas.Policy) {
	ms := func(d time.Duration) millis { return millis(d.Milliseconds()) }
	w.policy = p
	w.present, w.away, w.idleAfter, w.byeDebounce = ms(p.OnlineTTL+p.OfflineDebounce), ms(p.AwayTTL), ms(p.IdleAfter), ms(p.ByeDebounce)
	w.lateness, w.silence, w.window = ms(p.AllowedLateness), ms(p.GatewaySilence), ms(p.ReconnectWindow)
	w.interval, w.burst = ms(p.FlapInterval), millis(p.FlapBurst)*ms(p.FlapInterval)
	w.breakerLimit = schemas.Millis(p.BreakerLimit.Milliseconds())
}

// record applies the record of an index.
func (w *world) record(index int) {
	r := &w.log.Records[index]
	var f schemas.Frame
	if f.Decode(r.Value) != nil {
		return
	}
	w.offset, w.caused = r.Offset, map[schemas.UserID]int{}
	if w.offset-w.base > schemas.MaxVersionOffset {
		w.epoch, w.base = w.epoch+1, w.offset
	}
	if w.advance(r.Time, w.breakerLimit) {
		w.disarmed = true
	}
	w.x = max(w.x, w.presence(w.now)-w.lateness)
	w.writePresumed()
	before := len(w.out)
	w.evaluate()
	w.apply(&f)
	w.tend()
	if len(w.out) > before {
		w.newest, w.newestBase = index, w.base
	}
}

// apply applies what the frame says.
func (w *world) apply(f *schemas.Frame) {
	if f.Tick {
		return
	}
	if f.Policy != nil {
		if *f.Policy != w.policy {
			for _, u := range w.users {
				if u.state != schemas.Offline && u.waits == nil {
					u.bucket, u.publishedAt = nil, 0
				}
			}
			w.setPolicy(*f.Policy)
			w.policyFrom = max(w.now, w.policyFrom+1)
			for i := range w.numbered {
				w.numbered[i].silence = min(w.numbered[i].silence, w.silence)
			}
		}
		return
	}
	gateway, fresh := w.hear(f)
	if !fresh {
		return
	}
	if f.VisibilityUser != 0 {
		w.setVisibility(f.VisibilityUser, f.Visibility == schemas.Nobody)
	}
	rows := f.Beats()
	for row := (schemas.Beat{}); rows.Next(&row); {
		w.row(row, gateway)
	}
}

// user is what is known of a user, made if there is nothing; nil for a user of
// another partition.
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

// forget drops what need not be known of an offline user whom everyone may see, and
// writes the status of one of whom something has to be known.
func (w *world) forget(u *user) {
	if u.state == schemas.Offline {
		u.silent, u.held, u.drained, u.kinds = false, 0, false, 0
		if u.waits == nil {
			u.published.kinds = 0
		}
	}
	if u.state == schemas.Offline && u.waits == nil && !u.hidden {
		u.lastActive = 0
		u.lastSeen = u.lastBye().time
		u.since = u.lastSeen
	}
	w.write(u)
	if u.state == schemas.Offline && u.waits == nil && !u.hidden && len(u.byes) == 0 && u.bucket == nil && len(u.reports) == 0 {
		delete(w.users, u.id)
	}
}
