package detector

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// plan is how to restore a partition. See ../DESIGN.md, Restarts.
type plan struct {
	checkpoint *schemas.Checkpoint // nil: the commit is lost
	lossy      bool                // not all required heartbeats can be re-read
	newEpoch   bool                // the log was recreated or cut back
	// Heartbeats to be re-read without publishing; of a lossy restart, those among which the next
	// one is found.
	from, to int64
	handled  schemas.Millis // of those, records appended until then had been handled; 0: all
	next     int64
	latest   schemas.Millis // the latest published instant, without a commit
}

// Restore brings the partition to the state of the commit. It publishes nothing.
// After an error the Partition must not be used.
func (p *Partition) Restore(ctx context.Context, at stream.Assignment, read stream.ReadFunc) error {
	return p.restore(ctx, at, read, nil)
}

// restore is Restore with what is settled about users of whom the heartbeats that are re-read do not say which of two
// names is theirs.
func (p *Partition) restore(ctx context.Context, at stream.Assignment, read stream.ReadFunc, settled map[schemas.UserID]settled) error {
	began := p.config.Now()
	p.topicID = at.TopicID
	p.router = router{partition: at.Partition, partitions: at.Partitions}
	if p.config.Users.Text() {
		p.names = newNames(p.config.Users)
		p.settled, p.erasedAt = settled, map[schemas.UserID]int64{}
	}
	plan, err := p.plan(at)
	if err != nil {
		return err
	}
	p.machine = liveness.New(p.config.Settings, at.Partition, at.Partitions, 1, p.config.Key)
	if p.config.Slice > 0 {
		p.machine.Slice = p.config.Slice
	}
	var published published
	if plan.checkpoint == nil {
		if published, err = p.lost(ctx, at, &plan, read); err != nil {
			return err
		}
	}
	if plan.lossy {
		p.machine.BeginLossy(plan.checkpoint)
	} else {
		p.machine.BeginReplay(plan.checkpoint)
	}
	bounds := bounds{checkpoint: plan.checkpoint, committed: at.Offset, partition: p.id, partitions: p.router.partitions}
	tenantEpoch, err := p.adoptTenants(ctx, &plan, &bounds, read)
	if err != nil {
		return err
	}
	if err := p.replay(ctx, &plan, read); err != nil {
		return err
	}
	epoch, err := p.adopt(ctx, &plan, &bounds, read)
	if err != nil {
		return err
	}
	if p.names != nil {
		if again := p.settle(plan.checkpoint); len(again) > 0 && settled == nil {
			p.rejected = nil
			return p.restore(ctx, at, read, again)
		}
	}
	least := max(p.config.MinLogEpoch, 1) - 1 // before the one that begins
	switch epoch = max(epoch, tenantEpoch, published.epoch, least); {
	case plan.checkpoint == nil && epoch > 0:
		p.log.Error("ALARM: the group's committed offset is gone, as when the topic was deleted: a new log epoch begins",
			"epoch", epoch+1, "next", plan.next)
		p.machine.StartEpoch(epoch+1, baseFor(plan.next))
	case plan.newEpoch:
		p.machine.StartEpoch(max(plan.checkpoint.LogEpoch, least)+1, baseFor(plan.next))
	}
	if presumed := p.machine.EndReplay(); presumed > 0 {
		p.config.Metrics.Unknown.Add(float64(presumed))
		p.log.Warn("heartbeats are lost: users who were online count as heard at the last commit", "users", presumed,
			"log_time", p.machine.LogTime())
	}
	if p.names != nil {
		p.names.sortEnds()
		p.countTenants()
	}
	p.next, p.counted = plan.next, p.machine.Counts()
	if c := plan.checkpoint; c != nil && !plan.newEpoch && plan.next == at.Offset && c.Published.Begun() {
		p.begun = at.Offset
	}
	p.announcePolicy = plan.checkpoint == nil || len(plan.checkpoint.Policies) == 0
	p.newPolicies = true
	if p.config.Policies != nil {
		p.config.Policies.Restored()
	}
	p.logPolicy()
	p.logBreaker()
	p.log.Info("restored", "users", p.machine.Users(), "replayed_from", plan.from, "next", p.next, "took",
		p.config.Now().Sub(began))
	return nil
}

// plan derives the plan from the commit.
func (p *Partition) plan(at stream.Assignment) (plan, error) {
	first := at.LogStart // the first record for Handle
	if at.Offset >= at.LogStart && at.Offset <= at.LogEnd {
		first = at.Offset
	}
	if at.Offset < 0 || at.Metadata == "" {
		return plan{lossy: true, next: first}, nil
	}
	c, err := schemas.DecodeCheckpoint(at.Metadata)
	if err != nil {
		return plan{}, fmt.Errorf("partition %d, committed offset %d: %w", at.Partition, at.Offset, err)
	}
	log := p.log.With("committed", at.Offset, "log_start", at.LogStart, "log_end", at.LogEnd)
	switch {
	case c.TopicID.Differs(at.TopicID):
		log.Error("ALARM: the heartbeats topic is another one than the detector knew: a new log epoch begins")
		return plan{checkpoint: c, lossy: true, newEpoch: true, next: at.LogStart}, nil
	case at.Offset > at.LogEnd:
		log.Error("ALARM: the heartbeats log was cut back behind the committed offset: a new log epoch begins")
		return plan{checkpoint: c, lossy: true, newEpoch: true, from: at.LogStart, to: at.LogEnd, handled: c.LogTime,
			next: at.LogStart}, nil
	case at.Offset < at.LogStart:
		log.Error("ALARM: retention has overtaken the detector: heartbeats were lost before it saw them")
		return plan{checkpoint: c, lossy: true, next: at.LogStart}, nil
	case c.ReplayOffset < at.LogStart:
		log.Warn("retention has taken heartbeats that a restart needs", "replay_offset", c.ReplayOffset)
		return plan{checkpoint: c, lossy: true, next: at.Offset}, nil
	}
	return plan{checkpoint: c, from: c.ReplayOffset, to: at.Offset, next: at.Offset}, nil
}

// errStop ends a read early.
var errStop = errors.New("enough")

// replay reads heartbeats again, or finds the next offset.
func (p *Partition) replay(ctx context.Context, plan *plan, read stream.ReadFunc) error {
	if plan.from >= plan.to {
		return nil
	}
	err := read(ctx, schemas.Heartbeats, plan.from, plan.to, func(r *schemas.Record) error {
		readable, _ := p.decode(r.Value, r.Time)
		if p.names != nil {
			p.names.fresh = p.names.fresh[:0]
			if readable && p.frame.ErasedUser != 0 {
				readable = p.erasesAgain(r.Offset)
			}
		}
		if readable && plan.handled != 0 && r.Time > plan.handled && r.Offset >= plan.next {
			return errStop
		}
		plan.next = max(plan.next, r.Offset+1)
		switch {
		case !readable:
		case !plan.lossy:
			p.machine.Apply(r.Offset, r.Time, &p.frame, &p.out)
			p.out.Reset()
		case plan.checkpoint == nil:
			p.machine.Pass(r.Offset, r.Time, &p.frame)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStop) {
		return fmt.Errorf("re-reading heartbeats from offset %d: %w", plan.from, err)
	}
	return nil
}

// maxRejected bounds how many records one restore sends to the dead-letter topic. The next restore
// finds the others again.
const maxRejected = 1000

// adopt passes the status of every user to the machine. Impossible statuses are rejected, and their
// users count as users without a status. It returns the greatest log epoch of the versions.
func (p *Partition) adopt(ctx context.Context, plan *plan, bounds *bounds, read stream.ReadFunc) (epoch uint32, err error) {
	p.machine.BeginAdopt(plan.latest)
	if p.names != nil {
		p.replayed, p.names = p.names, newNames(p.config.Users)
	}
	err = read(ctx, schemas.Statuses, -1, -1, func(r *schemas.Record) error {
		if schemas.IsPolicyKey(r.Key) {
			return nil // adoptTenants has read it
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
		p.machine.Adopt(user, status, bounds.left(r))
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("reading the status of all users: %w", err)
	}
	return epoch, nil
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
