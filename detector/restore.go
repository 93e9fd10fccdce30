package detector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// plan is how to restore a partition without a snapshot. See ../DESIGN.md, Restarts.
type plan struct {
	checkpoint *schemas.Checkpoint // nil: the commit is lost
	newEpoch   bool                // the log was recreated or cut back
	// Heartbeats among which the next one is found.
	from, to int64
	handled  schemas.Millis // of those, records appended until then had been handled; 0: all
	next     int64
}

// Restore brings the partition to the state of the commit: that of the snapshot that it names, and of the
// heartbeats from there on. It publishes nothing. After an error the Partition must not be used.
func (p *Partition) Restore(ctx context.Context, at stream.Assignment, read stream.ReadFunc) error {
	began := p.config.Now()
	p.topicID = at.TopicID
	p.router = router{partition: at.Partition, partitions: at.Partitions}
	p.masters = p.config.Keys.Fingerprints()
	p.begin()
	c, err := checkpointOf(at)
	if err != nil {
		return err
	}
	from := int64(-1)
	if c != nil && p.mayRunFrom(c, at) {
		switch err := p.loadNamed(ctx, c.Snapshot, -1, read); {
		case errors.Is(err, errState):
			p.log.Error("ALARM: the snapshot that the commit names cannot be used", "next", c.Snapshot.Next, "error", err)
			p.begin()
		case err != nil:
			return err
		default:
			from = p.next
			p.config.Metrics.Restores.WithLabelValues("snapshot").Inc()
		}
	}
	if from < 0 {
		if err := p.restoreLossy(ctx, at, c, read); err != nil {
			return err
		}
		from = p.next
	} else if err := p.run(ctx, from, at.Offset, read); err != nil {
		return err
	}
	p.counted, p.newPolicies = p.machine.Counts(), true
	if p.config.Policies != nil {
		p.config.Policies.Restored()
	}
	p.logPolicy()
	p.logBreaker()
	p.log.Info("restored", "users", p.machine.Users(), "run_from", from, "next", p.next, "took", p.config.Now().Sub(began))
	return nil
}

// begin makes the state that of a partition of which nothing is known.
func (p *Partition) begin() {
	if p.keptEpoch = 0; p.config.Users.Text() {
		p.names = newNames(p.config.Users)
	}
	p.checker.Remember(nil)
	p.machine = liveness.New(p.config.Settings, p.router.partition, p.router.partitions, 1, p.config.Key)
	p.machine.MostDue = cmp.Or(p.config.MostDue, liveness.MostDue)
}

// checkpointOf is that of the commit; nil if there is none.
func checkpointOf(at stream.Assignment) (*schemas.Checkpoint, error) {
	if at.Offset < 0 || at.Metadata == "" {
		return nil, nil
	}
	c, err := schemas.DecodeCheckpoint(at.Metadata)
	if err != nil {
		return nil, fmt.Errorf("partition %d, committed offset %d: %w", at.Partition, at.Offset, err)
	}
	return c, nil
}

// mayRunFrom reports whether the log still has what follows the snapshot that c names.
func (p *Partition) mayRunFrom(c *schemas.Checkpoint, at stream.Assignment) bool {
	if masters := strings.Join(c.Masters, " "); masters != p.masters && c.Snapshot.Next != at.Offset {
		p.log.Warn("the frames since the snapshot were checked under other masters", "masters", masters, "now", p.masters)
		return false
	}
	if c.TopicID.Differs(at.TopicID) || at.Offset < at.LogStart || at.Offset > at.LogEnd {
		return false
	}
	n := c.Snapshot
	if n.Chunks == 0 {
		p.log.Warn("the commit names no snapshot: none was complete since the masters of signed frames changed")
		return false
	}
	if n.Next < at.LogStart || n.Next > at.Offset {
		p.log.Warn("retention has taken heartbeats that a restart needs", "snapshot_next", n.Next, "log_start", at.LogStart)
		return false
	}
	return true
}

// run handles heartbeats that were handled before.
func (p *Partition) run(ctx context.Context, from, to int64, read stream.ReadFunc) error {
	if from >= to {
		return nil
	}
	p.muted = true
	defer func() { p.muted = false }()
	var out stream.Outbox
	err := read(ctx, schemas.Heartbeats, from, to, func(r *schemas.Record) error {
		out.Records, out.Forwards, out.Hints, out.Rejected = out.Records[:0], out.Forwards[:0], out.Hints[:0], out.Rejected[:0]
		p.snapshots.since += len(r.Value)
		if p.snapshots.begun == 0 {
			p.snapshots.begun = r.Time // the first record has the first time
		}
		return p.Handle(r, &out)
	})
	if err != nil {
		return fmt.Errorf("running from the snapshot at offset %d: %w", from, err)
	}
	p.next = to // behind it may be holes
	return nil
}

// restoreLossy is a restore from the statuses; see liveness. The next record writes a snapshot.
func (p *Partition) restoreLossy(ctx context.Context, at stream.Assignment, c *schemas.Checkpoint, read stream.ReadFunc) error {
	plan := p.plan(at, c)
	p.machine.BeginLossy(c)
	epoch, err := p.adopt(ctx, &bounds{checkpoint: c, committed: at.Offset, partition: p.id, partitions: p.router.partitions}, read)
	if err != nil {
		return err
	}
	var published published
	if c == nil {
		if published, err = p.lost(ctx, at, &plan, epoch, read); err != nil {
			return err
		}
	}
	if err := p.pass(ctx, &plan, read); err != nil {
		return err
	}
	least := max(p.config.MinLogEpoch, 1) - 1 // before the one that begins
	if epoch = max(epoch, published.epoch, least); epoch >= MaxLogEpoch && (c == nil || plan.newEpoch) {
		return fmt.Errorf("log epoch %d is named, and the greatest is %d: no other can begin", epoch, MaxLogEpoch)
	}
	switch {
	case c == nil && epoch > 0:
		p.log.Error("ALARM: the group's committed offset is gone, as when the topic was deleted: a new log epoch begins",
			"epoch", epoch+1, "next", plan.next)
		p.machine.StartEpoch(epoch+1, baseFor(plan.next))
	case plan.newEpoch:
		p.machine.StartEpoch(max(c.LogEpoch, epoch)+1, baseFor(plan.next))
	}
	if presumed := p.machine.EndLossy(published.latest); presumed > 0 {
		p.config.Metrics.Unknown.Add(float64(presumed))
		p.log.Warn("heartbeats are lost: users who were online count as heard at the last commit", "users", presumed,
			"log_time", p.machine.LogTime())
	}
	kind := "lossy"
	if c == nil && epoch == 0 {
		kind = "new"
	} else {
		p.lossyAt = max(1, p.machine.LogTime())
	}
	p.config.Metrics.Restores.WithLabelValues(kind).Inc()
	if p.names != nil {
		p.names.ends = inOrder(p.names.ends)
		p.countTenants()
	}
	p.next = plan.next
	p.announcePolicy = c == nil || c.Policy == (schemas.PolicyInForce{})
	p.snapshots.due = true
	return nil
}

// plan derives the plan from the commit.
func (p *Partition) plan(at stream.Assignment, c *schemas.Checkpoint) plan {
	log := p.log.With("committed", at.Offset, "log_start", at.LogStart, "log_end", at.LogEnd)
	switch {
	case c == nil && at.Offset >= at.LogStart && at.Offset <= at.LogEnd:
		return plan{next: at.Offset}
	case c == nil:
		return plan{next: at.LogStart}
	case c.TopicID.Differs(at.TopicID):
		log.Error("ALARM: the heartbeats topic is another one than the detector knew: a new log epoch begins")
		return plan{checkpoint: c, newEpoch: true, next: at.LogStart}
	case at.Offset > at.LogEnd:
		log.Error("ALARM: the heartbeats log was cut back behind the committed offset: a new log epoch begins")
		return plan{checkpoint: c, newEpoch: true, from: at.LogStart, to: at.LogEnd, handled: c.LogTime, next: at.LogStart}
	case at.Offset < at.LogStart:
		log.Error("ALARM: retention has overtaken the detector: heartbeats were lost before it saw them")
		return plan{checkpoint: c, next: at.LogStart}
	}
	return plan{checkpoint: c, next: at.Offset}
}

// errStop ends a read early.
var errStop = errors.New("enough")

// pass finds the next offset; without a commit it takes the time from the records before it.
func (p *Partition) pass(ctx context.Context, plan *plan, read stream.ReadFunc) error {
	if plan.from >= plan.to {
		return nil
	}
	err := read(ctx, schemas.Heartbeats, plan.from, plan.to, func(r *schemas.Record) error {
		readable := p.read(r.Value, r.Time) == nil
		if readable && plan.handled != 0 && r.Time > plan.handled && r.Offset >= plan.next {
			return errStop
		}
		plan.next = max(plan.next, r.Offset+1)
		if readable && plan.checkpoint == nil {
			p.machine.Pass(r.Time)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStop) {
		return fmt.Errorf("reading heartbeats from offset %d again: %w", plan.from, err)
	}
	return nil
}

// maxRejected bounds how many records one restore sends to the dead-letter topic. The next restore
// finds the others again.
const maxRejected = 1000

// adopt passes the rules of the partition and the status of every user to the machine. Impossible records are
// rejected, and count as if they were not there. It returns the greatest log epoch of rules and versions.
func (p *Partition) adopt(ctx context.Context, bounds *bounds, read stream.ReadFunc) (epoch uint32, err error) {
	var rules *schemas.PartitionRules
	err = read(ctx, schemas.Statuses, -1, -1, func(r *schemas.Record) error {
		if schemas.IsRulesKey(r.Key) {
			if newest, err := bounds.rules(r); err != nil {
				p.rejectStored(r, err)
				p.log.Error("ALARM: a record with the rules of the partition cannot be used: those before it count", "offset", r.Offset, "error", err)
			} else {
				rules = newest
			}
			return nil
		}
		user, status, err := bounds.status(r)
		if err == nil {
			err = p.checkStatusName(status)
		}
		switch {
		case err != nil:
			p.rejectStored(r, err)
			return nil
		case status != nil:
			epoch = max(epoch, status.Version.LogEpoch())
		}
		if p.names != nil {
			p.adoptName(user, status)
		}
		p.machine.Adopt(user, status)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("reading the status of all users: %w", err)
	}
	if rules == nil {
		return epoch, nil
	}
	p.machine.AdoptRules(rules)
	if p.names != nil {
		p.names.each(p.machine.HasTenant, p.machine.Judge)
	}
	return max(epoch, rules.LogEpoch), nil
}

// rejectStored sends a record of the status topic to the dead-letter topic, with the next record.
func (p *Partition) rejectStored(r *schemas.Record, reason error) {
	p.config.Metrics.RejectedStatus.Inc()
	if len(p.rejected) < maxRejected {
		p.rejected = append(p.rejected, stream.Rejected{Record: copyOf(r), Topic: schemas.Statuses, Reason: reason})
	}
}

func copyOf(r *schemas.Record) *schemas.Record {
	c := *r
	c.Key, c.Value, c.Headers = slices.Clone(r.Key), slices.Clone(r.Value), slices.Clone(r.Headers)
	return &c
}

// baseFor is the base of a log epoch that begins at an offset. It is 0 if possible, so that
// versions show offsets.
func baseFor(next int64) int64 {
	if next > schemas.MaxVersionOffset/2 {
		return next
	}
	return 0
}
