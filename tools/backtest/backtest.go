package backtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
)

// Options say how to compare.
type Options struct {
	Policies []Policy
	// Tenant restricts the trial to one tenant: the policies are tried as its own, everybody else is judged as
	// in the log, and the report counts its users alone. nil: the policies are tried as that of the pipeline.
	Tenant *string
	// Flap: a user who left online and is back within this time has flapped.
	Flap time.Duration
	// WarmUp is how much of the beginning does not count. Records before From do not count either.
	WarmUp time.Duration
	From   schemas.Millis
	// Progress, if not nil, is called now and then with the number of records applied.
	Progress func(records int64)
}

// Run applies the recorded heartbeats to every policy. Users of tenants with policies of their own are judged by
// these, as in the log. From a Publisher the report also has what was published, before the policies.
func Run(ctx context.Context, from Source, o Options) (*Report, error) {
	if len(o.Policies) == 0 {
		return nil, errors.New("there is no policy to try")
	}
	r := &Report{WarmUp: o.WarmUp.Seconds(), Flap: o.Flap.Seconds(), Tenant: o.Tenant}
	var known *people // nil in int mode
	if in := from.InForce(); in.named() || !in.Known || o.Tenant != nil {
		var err error
		if known, err = namedIn(ctx, from); err != nil {
			return nil, err
		}
	}
	if o.Tenant != nil {
		if r.Users = len(known.byName[*o.Tenant]); r.Users == 0 {
			return nil, fmt.Errorf("--tenant: no user of tenant %q is named in these heartbeats", *o.Tenant)
		}
	}
	publisher, publishes := from.(Publisher)
	trials := make([]*trial, len(o.Policies))
	for i, p := range o.Policies {
		var err error
		if trials[i], err = newTrial(p, from, known, o); err != nil {
			return nil, err
		}
	}
	var frame schemas.Frame
	within := newCounted(from.Partitions(), o.From, schemas.Millis(o.WarmUp.Milliseconds()))
	err := from.Each(ctx, func(record *schemas.Record) error {
		at := max(record.Time, trials[0].machines[record.Partition].LogTime())
		if frame.Decode(record.Value) != nil || frame.CheckEpoch(at) != nil { // is a dead letter
			r.Unreadable++
			return nil
		}
		r.Records++
		if o.Tenant != nil {
			r.Beats += known.beats(&frame, *o.Tenant)
		} else {
			r.Beats += int64(frame.Rows())
		}
		if r.From == 0 || record.Time < r.From {
			r.From = record.Time
		}
		r.To = max(r.To, record.Time)
		if within.take(record) {
			r.Counted++
		}
		for _, t := range trials {
			t.apply(record, &frame)
		}
		if r.Records%4096 == 0 && o.Progress != nil {
			o.Progress(r.Records)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the recorded heartbeats: %w", err)
	}
	r.From = max(r.From, o.From)
	if publishes {
		outcome, err := published(ctx, publisher, r, within, trials[0])
		if err != nil {
			return nil, err
		}
		r.Policies = append(r.Policies, outcome)
	}
	for _, t := range trials {
		r.Policies = append(r.Policies, t.outcome())
	}
	return r, nil
}

// trial is one policy under way.
type trial struct {
	policy   Policy
	tenant   *string // whose policy is tried; nil: that of the pipeline
	people   *people // nil in int mode
	flap     schemas.Millis
	warmUp   schemas.Millis
	from     schemas.Millis // records before it do not count
	machines []*liveness.Machine
	begun    []schemas.Millis // when the first record of a partition was written; 0: none yet
	out      liveness.Output

	o         Outcome
	left      map[schemas.UserID]schemas.Millis // when a user who was online last left
	toOffline []int32                           // milliseconds
	noticed   []int32
	load      map[int64]int32 // visible changes by second
	first     int64
	last      int64
}

func newTrial(p Policy, from Source, known *people, o Options) (*trial, error) {
	partitions, in := from.Partitions(), from.InForce()
	t := &trial{
		policy: p, tenant: o.Tenant, people: known,
		flap: schemas.Millis(o.Flap.Milliseconds()), warmUp: schemas.Millis(o.WarmUp.Milliseconds()), from: o.From,
		begun: make([]schemas.Millis, partitions), left: map[schemas.UserID]schemas.Millis{}, load: map[int64]int32{},
	}
	pipeline := p.Settings
	if p.AsLogged || t.tenant != nil {
		if in.Policy == nil {
			return nil, fmt.Errorf("policy %s: needs the policy that was in force, which neither the recording nor the detector's group has", p.Name)
		}
		pipeline = *in.Policy
	}
	own := slices.Clone(in.Tenants)
	if t.tenant != nil && !p.AsLogged {
		own = slices.DeleteFunc(own, func(of schemas.TenantPolicy) bool { return of.Tenant == *t.tenant })
		own = append(own, schemas.TenantPolicy{Tenant: *t.tenant, Policy: &p.Settings})
	}
	judged := pipeline
	if t.tenant != nil {
		judged = pipeline.For(InForce{Tenants: own}.policyOf(*t.tenant))
	}
	if err := judged.Validate(); err != nil {
		return nil, fmt.Errorf("policy %s: with the other settings of the pipeline: %w", p.Name, err)
	}
	t.o = Outcome{Policy: p.Name, PolicyID: judged.ID(), Causes: map[string]int64{}}
	for id := range partitions {
		m := liveness.New(pipeline, id, partitions, 1, 0)
		m.AdoptRules(&schemas.PartitionRules{Policy: pipeline, Tenants: own})
		for _, of := range own {
			if known != nil {
				known.in(of.Tenant, id, partitions, func(user schemas.UserID) { m.Named(user, of.Tenant) })
			}
		}
		t.machines = append(t.machines, m)
	}
	return t, nil
}

func (t *trial) apply(r *schemas.Record, f *schemas.Frame) {
	m := t.machines[r.Partition]
	if t.begun[r.Partition] == 0 {
		t.begun[r.Partition] = r.Time
	}
	t.out.Reset()
	t.applyTo(m, r, f)
	if r.Time < max(t.from, t.begun[r.Partition]+t.warmUp) {
		return
	}
	second := int64(m.LogTime()) / 1000
	if t.first == 0 || second < t.first {
		t.first = second
	}
	t.last = max(t.last, second)
	for i := range t.out.Transitions {
		if c := &t.out.Transitions[i]; t.counts(c.User) {
			t.count(c, m.LogTime(), second)
		}
	}
}

// applyTo applies a record to the machine of its partition, without the policies that the one to try stands
// against.
func (t *trial) applyTo(m *liveness.Machine, r *schemas.Record, f *schemas.Frame) {
	policy, tenant := f.Policy, f.TenantPolicy
	defer func() { f.Policy, f.TenantPolicy = policy, tenant }() // for the other trials
	if !t.policy.AsLogged && t.tenant == nil {
		f.Policy = nil
	}
	first := false
	if tenant != nil {
		tried := t.tenant != nil && !t.policy.AsLogged && tenant.Tenant == *t.tenant
		if tried || t.people == nil || !m.TenantFits(tenant.Tenant) {
			f.TenantPolicy = nil
		}
		first = !m.HasTenant(tenant.Tenant)
	}
	partitions := int32(len(t.machines))
	if t.people != nil {
		names, row := f.Names(), schemas.NamedRow{}
		for names.Next(&row) {
			if user := f.User(row.Row); schemas.PartitionOf(user, partitions) == r.Partition {
				m.Named(user, t.people.tenants[user])
			}
		}
	}
	m.Apply(r.Offset, r.Time, f, &t.out)
	if first && m.HasTenant(tenant.Tenant) {
		t.people.in(tenant.Tenant, r.Partition, partitions, func(user schemas.UserID) { m.Judge(user, tenant.Tenant) })
	}
}

// counts reports whether changes of a user count.
func (t *trial) counts(user schemas.UserID) bool {
	if t.tenant == nil {
		return true
	}
	of, named := t.people.tenants[user]
	return named && of == *t.tenant
}

func (t *trial) count(c *schemas.Transition, noticed schemas.Millis, second int64) {
	t.o.Transitions++
	t.o.Causes[schemas.CauseWord(c.Cause)]++
	t.noticed = append(t.noticed, int32(max(0, noticed-c.At)))
	if c.Visibility != schemas.Nobody || c.Cause == schemas.VisibilityChange {
		t.o.Visible++
		t.load[second]++
	}
	switch {
	case c.From == c.To:
	case c.From == schemas.Online:
		t.left[c.User] = c.At
	case c.To == schemas.Online:
		t.o.Online++
		if left, known := t.left[c.User]; known && c.At-left <= t.flap {
			t.o.Flaps++
		}
		delete(t.left, c.User)
	}
	if c.To == schemas.Offline && c.From != c.To {
		t.o.Offline++
		if c.LastSeen > 0 {
			t.toOffline = append(t.toOffline, int32(min(c.At-c.LastSeen, 1<<31-1)))
		}
	}
	if c.To == schemas.Away && c.From != c.To {
		t.o.Away++
	}
}

// outcome is what the trial comes to.
func (t *trial) outcome() Outcome {
	t.o.TimeToOffline = spreadOf(t.toOffline)
	t.o.Noticed = spreadOf(t.noticed)
	if t.first == 0 {
		return t.o
	}
	seconds := make([]int32, t.last-t.first+1)
	for second, n := range t.load {
		seconds[second-t.first] = n
	}
	t.o.FanoutMean = float64(t.o.Visible) / float64(len(seconds))
	load := spreadOf(seconds)
	t.o.FanoutP99, t.o.FanoutPeak = load.P99, load.Max
	return t.o
}
