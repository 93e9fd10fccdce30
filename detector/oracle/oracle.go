package oracle

import (
	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
)

// Transitions are what the rules say comes of records, which are records of one
// partition of the heartbeats topic in the order of their offsets, with their
// append times. Records that cannot be decoded, and rows of users of another
// partition, are skipped. s must be valid; logEpoch counts the lives of the log
// from 1.
func Transitions(s liveness.Settings, partition, partitions int32, logEpoch uint32, records []schemas.Record) []schemas.Transition {
	w := &world{
		policy: s.PolicyID(), partition: partition, partitions: partitions, logEpoch: logEpoch,
		present: millis((s.OnlineTTL + s.OfflineDebounce).Milliseconds()), away: millis(s.AwayTTL.Milliseconds()),
		idleAfter: millis(s.IdleAfter.Milliseconds()), byeDebounce: millis(s.ByeDebounce.Milliseconds()),
		lateness: millis(s.AllowedLateness.Milliseconds()), silence: millis(s.GatewaySilence.Milliseconds()),
		window: millis(s.ReconnectWindow.Milliseconds()), cohortRate: int64(s.CohortRate), announce: s.AnnounceDevices,
		users: map[schemas.UserID]*user{},
	}
	for i := range records {
		w.record(&records[i])
	}
	return w.out
}

// world is all that is known of a partition.
type world struct {
	policy                string
	partition, partitions int32
	logEpoch              uint32

	// The settings.
	present                      millis // online_ttl + offline_debounce
	away, idleAfter, byeDebounce millis
	lateness, silence, window    millis
	cohortRate                   int64
	announce                     bool

	clock
	users       map[schemas.UserID]*user
	gateways    []*gateway // the remembered ones
	queue       []place
	lastRelease int64 // given in the queue, microseconds of presence time
	out         []schemas.Transition

	// Of the record being applied.
	offset int64
	x      millis // evaluation clock
	caused map[schemas.UserID]int
}

func (w *world) record(r *schemas.Record) {
	var f schemas.Frame
	if f.Decode(r.Value) != nil {
		return
	}
	w.advance(r.Time)
	w.offset, w.caused = r.Offset, map[schemas.UserID]int{}
	w.x = w.presence(w.now) - w.lateness
	w.evaluate(w.x)
	if f.Tick {
		return
	}
	gateway, fresh := w.hear(&f)
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
	if schemas.PartitionOf(id, w.partitions) != w.partition {
		return nil
	}
	u := w.users[id]
	if u == nil {
		u = &user{id: id, state: schemas.Offline}
		w.users[id] = u
	}
	return u
}

// forget drops what need not be known of an offline user whom everyone may see.
func (w *world) forget(u *user) {
	if u.state != schemas.Offline {
		return
	}
	u.silent = false
	if u.hidden {
		return
	}
	u.lastActive = 0
	u.lastSeen = u.lastBye().time
	u.since = u.lastSeen
	if len(u.byes) == 0 {
		delete(w.users, u.id)
	}
}
