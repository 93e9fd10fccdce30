package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/segmentio/ksuid"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Options say what is to be explained.
type Options struct {
	// Event is the id of the transition: 27 letters and digits. Empty: the last one of User at or before At.
	Event string
	At    schemas.Millis
	// User narrows the search to one partition; 0 if unknown.
	User schemas.UserID
	// Names, if not nil, is what users are called, in text mode. The explanation then has names, and no
	// internal ids.
	Names Names
	// Called is the name of User.
	Called schemas.Name
	// Progress, if not nil, is called now and then with the number of records read, and the time of the last one.
	Progress func(records int, reached schemas.Millis)
}

// Names is what users are called.
type Names interface {
	// Names returns what is known of the names of ids, which has no duplicates.
	Names(ctx context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.UserName, error)
}

// Explanation is everything that is known of why a transition was published.
type Explanation struct {
	Event     string   `json:"event_id"`
	AsOf      *AsOf    `json:"as_of,omitempty"` // if an instant was asked for
	Change    Change   `json:"change"`
	Policy    Policy   `json:"policy"`
	Rule      string   `json:"rule"`
	Place     Place    `json:"place"`
	Heartbeat *Record  `json:"record,omitempty"`
	Gone      string   `json:"record_gone,omitempty"` // why there is no record
	Replay    *Replay  `json:"replay,omitempty"`
	NoReplay  string   `json:"no_replay,omitempty"` // why there is none
	Before    []Change `json:"before"`
	After     []Change `json:"after"`
}

// AsOf is what the user was at an instant, because of the change.
type AsOf struct {
	At    schemas.Millis `json:"at"`
	State string         `json:"state"`
}

// Change is a transition in words.
type Change struct {
	Event      string             `json:"event_id"`
	User       schemas.UserID     `json:"user_id,string,omitempty"` // 0 in text mode
	Tenant     *string            `json:"tenant,omitempty"`         // with the name
	Name       *string            `json:"name,omitempty"`           // in text mode, if it is known and the only one of its id
	From       string             `json:"from"`
	To         string             `json:"to"`
	At         schemas.Millis     `json:"at"`
	Cause      string             `json:"cause"`
	LastSeen   schemas.Millis     `json:"last_seen_at"`
	LastActive schemas.Millis     `json:"last_active_at"`
	Device     uint32             `json:"device_id,omitempty"` // 0: none caused it
	Devices    []string           `json:"devices"`
	Kinds      schemas.KindStates `json:"kinds"`
	Visibility string             `json:"visibility"`
	Override   json.RawMessage    `json:"override,omitempty"`
	LeftOut    uint32             `json:"left_out,omitempty"` // changes before it that were not published
	Version    string             `json:"version"`
	Published  schemas.Millis     `json:"published_at"` // time of its record, by the detector's clock
}

// Policy is by which settings the detector decided.
type Policy struct {
	ID       string            `json:"id"`
	Settings []schemas.Setting `json:"settings,omitempty"` // none: they are not known
}

// Place is the version unpacked: the record at which the transition came about.
type Place struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	LogEpoch  uint32 `json:"log_epoch"`
	Offset    int64  `json:"offset"`
	Ordinal   int    `json:"ordinal"`
}

// Explain looks up the transition and what led to it. An id that is none is a
// *schemas.FieldError; one that is not in the log is an error that says what was
// looked through.
func Explain(ctx context.Context, cluster kafka.Config, reader *kafka.Reader, o Options) (*Explanation, error) {
	cluster = cluster.WithDefaults()
	s := search{reader: reader, user: o.User, called: o.Called, progress: o.Progress}
	found, err := s.findFor(ctx, &o)
	if err != nil {
		return nil, err
	}
	before, after, err := s.neighbours(ctx, found)
	if err != nil {
		return nil, err
	}
	checkpoints, err := policy.Checkpoints(ctx, cluster)
	if err != nil {
		return nil, err
	}
	t := found.Message
	base, baseKnown := baseOf(checkpoints[found.Partition], t.Version.LogEpoch())
	offset := base + t.Version.Offset()
	name, err := o.nameOf(ctx, t)
	if err != nil {
		return nil, err
	}
	e := &Explanation{
		Event: t.EventID().String(), Change: o.changeOf(found, name), Before: o.changesOf(before, name), After: o.changesOf(after, name),
		Policy: Policy{ID: t.Policy}, Rule: ruleOf(t),
		Place: Place{Topic: schemas.Heartbeats.Name(cluster.Prefix), Partition: found.Partition,
			LogEpoch: t.Version.LogEpoch(), Offset: offset, Ordinal: t.Version.Ordinal()},
	}
	if e.Gone = fmt.Sprintf("the offset from which the versions of log epoch %d count is not known any more", t.Version.LogEpoch()); baseKnown {
		if e.Heartbeat, e.Gone, err = readHeartbeat(ctx, reader, found, offset); err != nil {
			return nil, err
		}
	}
	if o.Event == "" {
		e.AsOf = &AsOf{At: o.At, State: e.Change.To}
	}
	known, err := policy.ReadKnown(ctx, reader, checkpoints, nil)
	if err != nil {
		return nil, err
	}
	for _, p := range known.Policies() {
		if p.ID() == t.Policy {
			e.Policy.Settings = p.Settings()
		}
	}
	if e.NoReplay = "the record is gone"; e.Heartbeat != nil {
		other, err := e.replay(ctx, cluster, reader, found)
		if err != nil {
			return nil, err
		}
		if e.Replay != nil {
			e.Replay.Produced = o.changesOf(other, name)
		}
	}
	return e, nil
}

// baseOf is the offset from which the versions of a log epoch count; false if it is not known.
func baseOf(c *schemas.Checkpoint, epoch uint32) (int64, bool) {
	if c == nil {
		return 0, true // as long as nobody began to count elsewhere
	}
	return c.BaseOf(epoch)
}

// parseEvent reads an event id.
func parseEvent(text string) (ksuid.KSUID, error) {
	id, err := ksuid.Parse(text)
	if err != nil {
		return ksuid.Nil, schemas.Invalid("event id", fmt.Sprintf("%q is none: it must be 27 letters and digits, as event_id in a transition; with --at it is a user", text))
	}
	if age := time.Until(id.Time()); age > 24*time.Hour {
		return ksuid.Nil, schemas.Invalid("event id", fmt.Sprintf("%q lies in the future: at %s", text, id.Time().UTC().Format(time.RFC3339)))
	}
	return id, nil
}

// nameOf is what the user of a transition is called; the zero value in int mode, if it is not known, and if
// the id has two names.
func (o *Options) nameOf(ctx context.Context, t *schemas.Transition) (schemas.Name, error) {
	if o.Names == nil {
		return schemas.Name{}, nil
	}
	found, err := o.Names.Names(ctx, []schemas.UserID{t.User})
	return store.NameOf(found[t.User], t.Name), err
}

func (o *Options) changeOf(l transition, name schemas.Name) Change {
	t := l.Message
	c := Change{
		Event: t.EventID().String(), User: t.User, From: schemas.StateWord(t.From), To: schemas.StateWord(t.To), At: t.At,
		Cause: schemas.CauseWord(t.Cause), LastSeen: t.LastSeen, LastActive: t.LastActive, Device: uint32(t.Device),
		Devices: t.Kinds.Words(), Kinds: t.Kinds.States(), Visibility: schemas.VisibilityWord(t.Visibility),
		Override: json.RawMessage(t.Override.Text()), LeftOut: t.LeftOut, Version: t.Version.String(), Published: l.Time,
	}
	if o.Names != nil {
		c.User = 0
	}
	if name.Text != "" {
		c.Tenant, c.Name = &name.Tenant, &name.Text
	}
	return c
}

func (o *Options) changesOf(all []transition, name schemas.Name) []Change {
	changes := make([]Change, len(all))
	for i := range all {
		changes[i] = o.changeOf(all[i], name)
	}
	return changes
}

// who is the user, for people.
func (c *Change) who() string {
	switch {
	case c.Name != nil:
		return "user " + schemas.Name{Tenant: *c.Tenant, Text: *c.Name}.String()
	case c.User != 0:
		return "user " + c.User.String()
	}
	return "a user whose name is not known, or whose id has two"
}
