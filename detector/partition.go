package detector

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
)

// Read reads records of this partition of a topic, in order: offsets from up to
// but not including to; from -1 is the start of the log, to -1 its end now.
type Read = func(ctx context.Context, topic schemas.Topic, from, to int64, each func(*schemas.Record) error) error

// Config is what all partitions of a process share.
type Config struct {
	Settings liveness.Settings
	Log      *slog.Logger
	Metrics  *Metrics
	// Now is the clock that says how long a forwarded beat was under way. Nothing
	// is decided by it.
	Now func() time.Time
}

// Partition is the detector of one partition. One goroutine may use it: the one
// that owns the partition.
type Partition struct {
	config  Config
	id      int32
	log     *slog.Logger
	machine *liveness.Machine
	topicID schemas.TopicID
	next    int64 // offset after the last handled record
	frame   schemas.Frame
	out     liveness.Output
	counted liveness.Counts
	router  router
	pages   pages
}

// NewPartition makes the detector of a partition; Restore must be called first.
func NewPartition(config Config, partition int32) *Partition {
	return &Partition{config: config, id: partition, log: config.Log.With("partition", partition)}
}

// Restore brings the partition to the state of the commit. It publishes nothing.
// On any error the Partition must be thrown away.
func (p *Partition) Restore(ctx context.Context, at schemas.Commit, read Read) error {
	began := p.config.Now()
	p.topicID = at.TopicID
	p.router = router{partition: at.Partition, partitions: at.Partitions}
	past, err := p.past(at)
	if err != nil {
		return err
	}
	p.machine = liveness.New(p.config.Settings, at.Partition, at.Partitions, past.epoch)
	p.next = past.next
	if past.checkpoint != nil {
		p.machine.BeginReplay(past.checkpoint)
	} else {
		p.machine.BeginReplay(&schemas.Checkpoint{})
	}
	if past.replayFrom < past.replayTo {
		err := read(ctx, schemas.Heartbeats, past.replayFrom, past.replayTo, func(r *schemas.Record) error {
			if p.frame.Decode(r.Value) == nil {
				p.machine.Apply(r.Offset, r.Time, &p.frame, &p.out)
				p.out.Reset()
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("re-reading heartbeats from offset %d: %w", past.replayFrom, err)
		}
	}
	epoch, err := p.adopt(ctx, read)
	if err != nil {
		return err
	}
	if past.fresh {
		published, err := publishedEpoch(ctx, read)
		if err != nil {
			return err
		}
		if epoch = max(epoch, published); epoch >= past.epoch {
			p.log.Error("ALARM: the group's committed offset is gone, as when the topic was deleted: a new log epoch begins", "epoch", epoch+1)
			p.machine.StartEpoch(epoch + 1)
		}
	}
	if unknown := p.machine.EndReplay(past.checkpoint); unknown > 0 {
		p.config.Metrics.Unknown.Add(float64(unknown))
		p.log.Warn("heartbeats of some users are gone; they count as heard at the last committed moment", "users", unknown)
	}
	p.counted = p.machine.Counts()
	p.log.Info("restored", "users", p.machine.Users(), "replayed_from", past.replayFrom, "next", p.next, "took", p.config.Now().Sub(began))
	return nil
}

// adopt hands the machine the status of every user. It returns the greatest log
// epoch among their versions.
func (p *Partition) adopt(ctx context.Context, read Read) (epoch uint32, err error) {
	p.machine.BeginAdopt()
	err = read(ctx, schemas.Statuses, -1, -1, func(r *schemas.Record) error {
		user, err := schemas.UserOfKey(r.Key)
		if err != nil {
			return fmt.Errorf("record %d of the status topic: %w", r.Offset, err)
		}
		if r.Value == nil {
			p.machine.Adopt(user, nil)
			return nil
		}
		status, err := schemas.DecodeStatus(r.Value)
		if err != nil {
			return fmt.Errorf("record %d of the status topic: %w", r.Offset, err)
		}
		epoch = max(epoch, status.Version.LogEpoch())
		p.machine.Adopt(user, status)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("reading the status of all users: %w", err)
	}
	return epoch, nil
}

// publishedEpoch is the greatest log epoch among what was ever published: with its
// commit a partition loses its epoch, and users who are offline have no status that
// would tell it.
func publishedEpoch(ctx context.Context, read Read) (epoch uint32, err error) {
	err = read(ctx, schemas.Transitions, -1, -1, func(r *schemas.Record) error {
		if t, err := schemas.DecodeTransition(r.Value); err == nil { // who cannot be read says nothing of epochs
			epoch = max(epoch, t.Version.LogEpoch())
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("looking for the last log epoch in the transitions: %w", err)
	}
	return epoch, nil
}

// past says how a partition's history is to be taken up.
type past struct {
	checkpoint           *schemas.Checkpoint
	epoch                uint32
	fresh                bool // nothing is known of epochs but what was published
	replayFrom, replayTo int64
	next                 int64
}

// past decides it from the commit.
func (p *Partition) past(at schemas.Commit) (past, error) {
	if at.Offset < 0 || at.Metadata == "" {
		return past{epoch: 1, fresh: true, next: at.LogStart}, nil
	}
	c, err := schemas.DecodeCheckpoint(at.Metadata)
	if err != nil {
		return past{}, fmt.Errorf("partition %d, committed offset %d: %w", at.Partition, at.Offset, err)
	}
	switch {
	case at.Offset > at.LogEnd || c.TopicID.Differs(at.TopicID):
		p.log.Error("the heartbeats log was cut or made anew: a new log epoch begins", "committed", at.Offset, "log_end", at.LogEnd)
		return past{epoch: c.LogEpoch + 1, next: at.LogStart}, nil
	case at.Offset < at.LogStart:
		p.log.Error("retention has overtaken the detector: heartbeats are lost", "committed", at.Offset, "log_start", at.LogStart)
		c.ReplayLogTime = c.LogTime
		return past{checkpoint: c, epoch: c.LogEpoch, next: at.LogStart}, nil
	}
	return past{checkpoint: c, epoch: c.LogEpoch, replayFrom: max(c.ReplayOffset, at.LogStart), replayTo: at.Offset, next: at.Offset}, nil
}

// Handle applies one record. What it leads to is appended to out.
func (p *Partition) Handle(r *schemas.Record, out *schemas.Outbox) error {
	p.next = r.Offset + 1
	if err := p.frame.Decode(r.Value); err != nil {
		p.reject(r, err, out)
		return nil
	}
	p.out.Reset()
	p.machine.Apply(r.Offset, r.Time, &p.frame, &p.out)
	out.Records = slices.Grow(out.Records, len(p.out.Transitions)+len(p.out.Statuses))
	for i := range p.out.Transitions {
		t := &p.out.Transitions[i]
		p.config.Metrics.transition(t)
		out.Records = append(out.Records, p.pages.transition(p.id, t))
	}
	for i := range p.out.Statuses {
		out.Records = append(out.Records, p.pages.status(p.id, &p.out.Statuses[i]))
	}
	if len(p.out.Misrouted) > 0 || p.out.MisroutedVisibility != 0 {
		p.forward(r, out)
	}
	for _, end := range p.out.Gateways {
		p.summarize(end)
	}
	p.count()
	return nil
}

// Checkpoint is the metadata that Restore needs beside the offset after the last
// handled record.
func (p *Partition) Checkpoint() string {
	c := p.machine.Checkpoint(p.next)
	c.TopicID = p.topicID
	return c.Encode()
}

// LogTime is the running maximum of the append times of what was handled.
func (p *Partition) LogTime() schemas.Millis { return p.machine.LogTime() }

func (p *Partition) reject(r *schemas.Record, err error, out *schemas.Outbox) {
	p.config.Metrics.Rejected.Inc()
	out.Rejected = append(out.Rejected, schemas.Rejected{Record: r, Reason: err})
}

func (p *Partition) summarize(end liveness.GatewayEnd) {
	p.config.Metrics.GatewaysLost.Inc()
	p.config.Metrics.CohortReturned.Add(float64(end.Returned))
	p.config.Metrics.CohortReleased.Add(float64(end.Released))
	p.log.Warn("gateway lost", "gateway", end.Gateway, "epoch", end.Epoch, "last_heard_at", end.HeardAt,
		"devices", end.Returned+end.Released, "came_back", end.Returned, "released", end.Released)
}

// count adds what the machine has counted since the last call.
func (p *Partition) count() {
	c := p.machine.Counts()
	p.config.Metrics.Beats.Add(float64(c.Beats - p.counted.Beats))
	p.config.Metrics.LostFrames.Add(float64(c.LostFrames - p.counted.LostFrames))
	p.config.Metrics.DuplicateFrames.Add(float64(c.DuplicateFrames - p.counted.DuplicateFrames))
	p.counted = c
}
