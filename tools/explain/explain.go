package explain

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/ksuid"

	"github.com/stillhere/stillhere/detector/liveness"
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
	// Names, if not nil, is what users are called, in text mode. The explanation then has names, and the
	// internal id only with ShowIDs.
	Names   Names
	ShowIDs bool
	// Called is the name of User.
	Called schemas.Name
	// Settings are those of the detector, for a policy that is not known otherwise.
	Settings liveness.Settings
	// Checkpoints are those of the detector's group, by partition; may be nil. They hold
	// policies, and the offset from which the versions of a log epoch count.
	Checkpoints map[int32]*schemas.Checkpoint
	// Tenants are the policies that tenants have or had, the newest last; nil in int mode.
	Tenants []schemas.TenantPolicy
	// Known are the policies that were in force once, as far as they are known.
	Known []schemas.Policy
	// Prefix is that of the topics.
	Prefix string
	// Progress, if not nil, is called now and then with the number of records read, and the time of the last one.
	Progress func(records int, reached schemas.Millis)
}

// Load fills in Checkpoints, Tenants and Known as the pipeline of the cluster has them.
func (o *Options) Load(ctx context.Context, cluster kafka.Config, reader *kafka.Reader) (err error) {
	var tenants []policy.SetPolicy
	if cluster.Users.Text() {
		if tenants, err = policy.OfTenants(ctx, reader); err != nil {
			return err
		}
		for _, p := range tenants {
			o.Tenants = append(o.Tenants, p.TenantPolicy)
		}
	}
	if o.Checkpoints, err = policy.Checkpoints(ctx, cluster); err != nil {
		return err
	}
	known, err := policy.ReadKnown(ctx, reader, o.Checkpoints, tenants)
	o.Known = known.Policies()
	return err
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
	Place     Place    `json:"place"`
	Heartbeat *Record  `json:"record,omitempty"`
	Gone      string   `json:"record_gone,omitempty"` // why there is no record
	Rule      Rule     `json:"rule"`
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
	Event      string         `json:"event_id"`
	User       schemas.UserID `json:"user_id,string,omitempty"` // 0 in text mode, unless it is asked for
	Tenant     *string        `json:"tenant,omitempty"`         // with the name
	Name       *string        `json:"name,omitempty"`           // in text mode, if it is known and the only one of its id
	From       string         `json:"from"`
	To         string         `json:"to"`
	At         schemas.Millis `json:"at"`
	Cause      string         `json:"cause"`
	LastSeen   schemas.Millis `json:"last_seen_at"`
	LastActive schemas.Millis `json:"last_active_at"`
	Device     uint32         `json:"device_id,omitempty"` // 0: none caused it
	Devices    []string       `json:"devices"`
	Visibility string         `json:"visibility"`
	LeftOut    uint32         `json:"left_out,omitempty"` // changes before it that were not published
	Version    string         `json:"version"`
	Published  schemas.Millis `json:"published_at"` // time of its record, by the detector's clock
}

// Policy is by which settings the detector decided, and whether they are known.
type Policy struct {
	ID    string `json:"id"`
	Given string `json:"given_id"` // of the settings that were given
	// Known: it was given, is in a checkpoint or in the topic policies, or is one of these with the settings of a
	// tenant.
	Known bool `json:"known"`
	// Tenant is whose settings it has, if they are those of the user's tenant; "": the default tenant.
	Tenant *string `json:"tenant,omitempty"`
	// Settings are those in force, where they are known.
	Settings []schemas.Setting `json:"settings,omitempty"`
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
func Explain(ctx context.Context, reader *kafka.Reader, o Options) (*Explanation, error) {
	s := search{reader: reader, user: o.User, called: o.Called, progress: o.Progress}
	found, err := s.findFor(ctx, &o)
	if err != nil {
		return nil, err
	}
	before, after, err := s.neighbours(ctx, found)
	if err != nil {
		return nil, err
	}
	t := found.Message
	base, baseKnown := o.base(found.Partition, t.Version.LogEpoch())
	offset := base + t.Version.Offset()
	name, err := o.nameOf(ctx, t)
	if err != nil {
		return nil, err
	}
	settings, tenant, known := o.policy(t.Policy, name)
	e := &Explanation{
		Event: found.Message.EventID().String(), Change: o.changeOf(found, name), Before: o.changesOf(before, name), After: o.changesOf(after, name),
		Policy: Policy{ID: t.Policy, Given: o.Settings.ID(), Known: known, Tenant: tenant},
		Place: Place{Topic: schemas.Heartbeats.Name(o.Prefix), Partition: found.Partition,
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
	if known {
		e.Policy.Settings = settings.Settings()
	}
	e.Rule = ruleOf(t, e.Heartbeat, settings, known)
	return e, nil
}

// policy is the one with the id, by which the user with the name was judged; false if it is not known, and
// then the one that was given. tenant is set if it has the settings of the user's tenant.
func (o *Options) policy(id string, name schemas.Name) (p schemas.Policy, tenant *string, known bool) {
	pipelines := []schemas.Policy{o.Settings}
	for _, c := range o.Checkpoints {
		pipelines = append(pipelines, c.Policy.Policy)
	}
	for _, p := range pipelines {
		if p.ID() == id {
			return p, nil, true
		}
	}
	for _, pipeline := range pipelines {
		for _, t := range o.Tenants {
			if t.Policy == nil || pipeline.For(t.Policy).ID() != id {
				continue
			}
			if p, known = pipeline.For(t.Policy), true; name.Text != "" && t.Tenant == name.Tenant {
				return p, &t.Tenant, true
			}
		}
	}
	if known {
		return p, nil, true // the name is not known, or of a tenant with the same settings
	}
	for _, p := range o.Known {
		if p.ID() == id {
			return p, nil, true
		}
	}
	return o.Settings, nil, false
}

// base is the offset from which the versions of a log epoch count; false if it is not
// known.
func (o *Options) base(partition int32, epoch uint32) (int64, bool) {
	c := o.Checkpoints[partition]
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
		Devices: t.Kinds.Words(), Visibility: schemas.VisibilityWord(t.Visibility), LeftOut: t.LeftOut, Version: t.Version.String(), Published: l.Time,
	}
	if o.Names != nil && !o.ShowIDs {
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
	id := ""
	if c.User != 0 {
		id = c.User.String()
	}
	switch {
	case c.Name != nil && id != "":
		return fmt.Sprintf("user %s (id %s)", schemas.Name{Tenant: *c.Tenant, Text: *c.Name}, id)
	case c.Name != nil:
		return "user " + schemas.Name{Tenant: *c.Tenant, Text: *c.Name}.String()
	case id != "":
		return "user " + id
	}
	return "a user whose name is not known, or whose id has two"
}
