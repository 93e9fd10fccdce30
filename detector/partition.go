package detector

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

type Config struct {
	// Settings are the policy of a partition that has none yet.
	Settings liveness.Settings
	Log      *slog.Logger
	Metrics  *Metrics
	// Now is the clock for the times of records where it is ahead of log time. It decides nothing.
	Now func() time.Time
	// Key protects the index against chosen user ids; see liveness.New.
	Key uint64
	// SeenInterval is the time in which every present user is written to the topic seen once; 0: no
	// users are written, only counts.
	SeenInterval time.Duration
	// MinLogEpoch is the least log epoch that begins when the commit is lost or the log is another one. After Kafka
	// was restored, the stores may have seen log epochs that the topics do not know. 0 and 1: any.
	MinLogEpoch uint32
	// MostDue is liveness.MostDue, but in tests; 0: the same.
	MostDue int
	// Snapshots are when snapshots are written.
	Snapshots Cadence
	// Users are those of the pipeline; the zero value is int mode.
	Users identity.Users
	// Keys check frames of Topic, which is the full name of the heartbeats; nil: all frames count.
	Keys  *signing.Keys
	Topic string
	// Policies knows the topic policies; nil: nothing is written to it.
	Policies PolicyLog
	// Gateways are those that are heard elsewhere; nil: none are.
	Gateways *Gateways
}

// Partition is the detector of one partition. Only the goroutine that owns the partition may use
// it.
type Partition struct {
	config    Config
	id        int32
	log       *slog.Logger
	machine   *liveness.Machine
	topicID   schemas.TopicID
	next      int64 // offset after the last handled record
	frame     schemas.Frame
	out       liveness.Output
	counted   liveness.Counts
	router    router
	checker   *signing.Checker
	refusedAt time.Time // when a refused frame was logged last
	refusing  refusing
	pages     pages
	snapshots snapshots
	leasedAt  time.Time // when it looked at the gateways last
	// leasesUnread are the changes that it wrote then and has not read yet.
	leasesUnread int
	muted        bool     // the record was handled before: only the state counts
	names        *names   // nil in int mode
	tenants      *tenants // nil in int mode
	sweep        liveness.Sweep
	seen         schemas.Seen
	shown        byState        // as in the gauges
	stopped      schemas.Millis // since when presence time stands still, as logged last

	alarmed        time.Time         // when it alarmed last that a name is not that of its user
	rejected       []stream.Rejected // found in a restore; go out with the next record
	announcePolicy bool              // the log does not say which policy is in force
	masters        string            // under which all frames since the snapshot were checked
	lossyAt        schemas.Millis    // the log time of the last lossy restart; 0: there was none
	keptEpoch      uint32            // the log epoch of the rules written last; 0: none were
	newPolicies    bool              // users may be judged by policies that the topic policies lacks
}

// NewPartition makes the detector of a partition; Restore must be called first.
func NewPartition(config Config, partition int32) *Partition {
	config.Snapshots = config.Snapshots.withDefaults()
	return &Partition{config: config, id: partition, log: config.Log.With("partition", partition),
		checker: config.Keys.Checker(config.Topic, partition),
		sweep:   liveness.Sweep{Interval: schemas.Millis(config.SeenInterval.Milliseconds())}}
}

// Handle applies one record and appends the results to out.
func (p *Partition) Handle(r *schemas.Record, out *stream.Outbox) error {
	out.Rejected = append(out.Rejected, p.rejected...)
	p.rejected = nil
	if r.Offset < p.next {
		return nil // the restore has found that it was handled
	}
	if p.muted {
		p.apply(r, out)
		return nil
	}
	p.snapshots.before(p, r, out)
	p.apply(r, out)
	p.snapshots.after(p, r, out)
	return nil
}

// apply is Handle without what is written of snapshots.
func (p *Partition) apply(r *schemas.Record, out *stream.Outbox) {
	usable, err := p.decode(r.Value, r.Time)
	if err != nil && !p.muted {
		p.reject(r, err, out)
		p.alarm(r, err)
	}
	if usable {
		p.refusing.end(p.config.Metrics)
	} else {
		p.next = r.Offset + 1
		return
	}
	if p.announcePolicy {
		p.announcePolicy = false
		out.Forwards = append(out.Forwards, schemas.Outgoing{Topic: schemas.Heartbeats, Partition: p.id,
			Value: schemas.AppendPolicy(nil, p.machine.Policy().Policy)})
	}
	if p.names != nil {
		p.takeNames(out)
	}
	if p.newPolicies {
		p.keepPolicies(out)
	}
	p.out.Reset()
	p.machine.Apply(r.Offset, r.Time, &p.frame, &p.out)
	records, hints := len(out.Records), len(out.Hints)
	p.publish(r, out)
	p.stamp(out, records, hints)
}

// Next is the offset of the next record for Handle, which ignores earlier ones. After Restore it
// may be beyond the committed offset: Restore has read again what a lost commit covered.
func (p *Partition) Next() int64 { return p.next }

// publish turns the machine's output into records. r is the record that caused it.
func (p *Partition) publish(r *schemas.Record, out *stream.Outbox) {
	p.next = r.Offset + 1
	if p.tenants != nil {
		p.tenants.recount(p.out.Recounts, p.names)
	}
	out.Records = slices.Grow(out.Records, len(p.out.Transitions)+len(p.out.Statuses))
	for i := range p.out.Transitions {
		t := &p.out.Transitions[i]
		p.sweep.Changed(t)
		if p.names != nil {
			t.Name = p.names.of(t.User)
		}
		if !p.muted {
			p.countTransition(t)
			out.Records = append(out.Records, p.pages.transition(p.id, t))
		}
		if p.names != nil && t.Cause == schemas.Erased {
			p.eraseName(t.User, out)
		}
	}
	for i := range p.out.Statuses {
		s := &p.out.Statuses[i]
		if p.names != nil {
			p.names.name(s, p.machine.LogTime())
		}
		if !p.muted {
			out.Records = append(out.Records, p.pages.status(p.id, s))
		}
	}
	if p.names != nil {
		p.settleNames(out)
	}
	if p.out.Tenant != nil {
		p.judgeTenant()
	}
	p.keepRules(out)
	if p.muted {
		return
	}
	if p.frame.Lease() {
		p.leasesUnread--
	}
	if p.out.Misrouted > 0 || p.out.MisroutedVisibility != 0 || p.out.MisroutedErasure != 0 {
		p.forward(r, out)
	}
	for _, end := range p.out.Gateways {
		p.summarize(end)
	}
	if p.frame.Policy != nil {
		p.logPolicy()
	}
	if p.frame.Policy != nil || p.frame.TenantPolicy != nil {
		p.keepPolicies(out)
	}
	p.logBreaker()
	if p.frame.Tick {
		p.lease(out)
		if p.sweep.Take(p.machine, &p.seen) {
			p.hint(out)
		}
	}
}

// countTransition counts a transition that is published.
func (p *Partition) countTransition(t *schemas.Transition) {
	p.config.Metrics.transition(t)
	if t.Name.Text != "" {
		p.config.Metrics.TenantChanges.Add(t.Name.Tenant, 1)
	}
}

// hint publishes who was seen, and counts.
func (p *Partition) hint(out *stream.Outbox) {
	if p.seen.Counts != nil && p.tenants != nil {
		p.seen.Tenants, p.seen.OtherTenants = p.tenants.largest(schemas.MaxSeenTenants)
		p.config.Metrics.tenantUsers.show(p.id, p.seen.Tenants, p.seen.OtherTenants)
	}
	out.Hints = append(out.Hints, schemas.Outgoing{Topic: schemas.SeenHints, Partition: p.id, Value: p.seen.Encode()})
	p.config.Metrics.SeenUsers.Add(float64(len(p.seen.Users)))
	var now byState
	now[0], now[1] = p.machine.PresentByState()
	p.show(now)
}

// stamp gives records and hints, from these on, the log time where the clock of this process is behind it.
// So no record is older than what it says, whatever the clocks of processes and brokers show.
func (p *Partition) stamp(out *stream.Outbox, records, hints int) {
	at := p.machine.LogTime()
	if len(out.Records) == records && len(out.Hints) == hints || at <= schemas.MillisOf(p.config.Now()) {
		return
	}
	for i := range out.Records[records:] {
		out.Records[records+i].Time = at
	}
	for i := range out.Hints[hints:] {
		out.Hints[hints+i].Time = at
	}
}

// show makes now this partition's part of the gauges.
func (p *Partition) show(now byState) {
	p.config.Metrics.show(&now, &p.shown)
	p.shown = now
}

// Checkpoint is the metadata of the commit of what was handled; Restore needs both.
func (p *Partition) Checkpoint() string {
	p.count()
	if masters := p.config.Keys.Fingerprints(); masters != p.masters {
		p.masters = masters
		p.snapshots.named, p.snapshots.capture = schemas.SnapshotName{}, nil // other frames counted until now
	}
	c := p.machine.Checkpoint()
	c.TopicID, c.Masters, c.Snapshot, c.LossyAt = p.topicID, strings.Fields(p.masters), p.snapshots.named, p.lossyAt
	return c.Encode()
}

// DueIn is when there is work at a tick; see liveness.Machine.DueIn. A tick follows whatever else happens soon, because
// readers wait until the partition's time has passed what they read.
func (p *Partition) DueIn() time.Duration {
	due := p.machine.DueIn()
	happened := !p.frame.Tick || len(p.out.Transitions)+len(p.out.Statuses) > 0
	if due > 0 && (happened || p.snapshots.capture != nil || p.sweep.Waits()) {
		due = 1
	}
	return time.Duration(due) * time.Millisecond
}

// KeepsUp reports whether it is known which gateways are heard.
func (p *Partition) KeepsUp() bool {
	return p.config.Gateways == nil || p.config.Gateways.fresh(p.config.Now())
}

// LogTime is the running maximum of the append times of what was handled.
func (p *Partition) LogTime() schemas.Millis { return p.machine.LogTime() }

func (p *Partition) reject(r *schemas.Record, err error, out *stream.Outbox) {
	p.config.Metrics.Rejected.Inc()
	if errors.As(err, new(*refusal)) {
		p.config.Metrics.Refused.Inc()
		now := p.config.Now()
		if p.refusing.goesOn(now, p.config.Metrics) {
			p.log.Error("ALARM: all frames of a minute are refused: users keep their state (deploy/RUNBOOK.md, StillhereAllFramesRefused)", "error", err)
		}
		if now.Sub(p.refusedAt) >= warnEvery {
			p.refusedAt = now
			p.log.Warn("a frame is refused and counts for nothing: its producer may not write it (deploy/RUNBOOK.md, StillhereFramesRefused)",
				"offset", r.Offset, "producer", producerOf(r, &p.frame), "error", err)
		}
	}
	out.Rejected = append(out.Rejected, stream.Rejected{Record: r, Reason: err})
}

// refusing is since when all frames are refused, and whether a gauge counts that.
type refusing struct {
	since   time.Time // zero: the last frame counts
	counted bool
}

// goesOn takes a refused frame, and reports whether all of the last minute were refused, once.
func (r *refusing) goesOn(now time.Time, m *Metrics) bool {
	if r.since.IsZero() {
		r.since = now
	}
	if r.counted || now.Sub(r.since) < time.Minute {
		return false
	}
	r.counted = true
	m.Refusing.Inc()
	return true
}

func (r *refusing) end(m *Metrics) {
	if r.since.IsZero() {
		return
	}
	if r.counted {
		m.Refusing.Dec()
	}
	*r = refusing{}
}

// refusal is why a frame does not count although it can be read: its key may not write it.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// summarize logs and counts what happened to the devices of a lost or drained gateway.
func (p *Partition) summarize(end liveness.GatewayEnd) {
	log := p.log.With("gateway", end.Gateway, "epoch", end.Epoch, "last_heard_at", end.HeardAt,
		"devices", end.Returned+end.Released, "returned", end.Returned, "released", end.Released)
	if end.Drained {
		p.config.Metrics.GatewaysDrained.Inc()
		log.Info("gateway drained")
	} else {
		p.config.Metrics.GatewaysLost.Inc()
		log.Warn("gateway lost")
	}
	p.config.Metrics.CohortReturned.Add(float64(end.Returned))
	p.config.Metrics.CohortReleased.Add(float64(end.Released))
}

// logBreaker logs when presence time stops and continues.
func (p *Partition) logBreaker() {
	stopped := p.machine.Stopped()
	switch {
	case stopped == p.stopped:
		return
	case stopped != 0:
		p.log.Error("ALARM: many gateways fell silent at once; presence time stands still until they are heard again",
			"since", stopped)
		p.config.Metrics.BreakerOpen.Inc()
	default:
		p.log.Warn("presence time continues: enough gateways are heard again", "stood_still_since", p.stopped,
			"log_time", p.machine.LogTime())
		p.config.Metrics.BreakerOpen.Dec()
	}
	p.stopped = stopped
}

// count adds what the machine has counted since the last call.
func (p *Partition) count() {
	c, m := p.machine.Counts(), p.config.Metrics
	m.Beats.Add(float64(c.Beats - p.counted.Beats))
	m.LostFrames.Add(float64(c.LostFrames - p.counted.LostFrames))
	m.DuplicateFrames.Add(float64(c.DuplicateFrames - p.counted.DuplicateFrames))
	m.Evicted.Add(float64(c.Evicted - p.counted.Evicted))
	m.DeniesRefused.Add(float64(c.DeniesRefused - p.counted.DeniesRefused))
	m.LeftOut.Add(float64(c.LeftOut - p.counted.LeftOut))
	m.BreakerTrips.Add(float64(c.BreakerTrips - p.counted.BreakerTrips))
	if n := c.NoPlace - p.counted.NoPlace; n > 0 {
		if p.counted.NoPlace == 0 {
			p.log.Error("ALARM: more gateways than a partition can tell apart; devices of the others have no time to reconnect when theirs is lost")
		}
		m.NoPlace.Add(float64(n))
	}
	p.counted = c
}

// Close removes the partition from the metrics.
func (p *Partition) Close() {
	p.show(byState{})
	p.config.Metrics.GatewaysStill.Set(0) // the next look of another partition shows it again
	p.config.Metrics.tenantUsers.hide(p.id)
	p.config.Metrics.noSnapshot(p.id)
	p.refusing.end(p.config.Metrics)
	if p.stopped != 0 {
		p.config.Metrics.BreakerOpen.Dec()
	}
}
