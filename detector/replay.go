package detector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/detector/snapshot"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// manifest is the record after the last chunk of a snapshot. Restarts use the name in the commit; whoever looks for an
// older snapshot, which no commit names any more, finds it by this record. It is as trustworthy as the topic's writers.
func manifest(partition int32, name schemas.SnapshotName) schemas.Outgoing {
	var s snapshot.Codec
	walkName(&s, &name)
	return schemas.Outgoing{Topic: schemas.Snapshots, Partition: partition, Key: []byte(manifestKey), Value: s.Bytes}
}

const manifestKey = "complete"

func walkName(s *snapshot.Codec, n *schemas.SnapshotName) {
	sum := string(n.Sum[:])
	snapshot.Number(s, &n.ID)
	snapshot.Number(s, &n.Next)
	snapshot.Number(s, &n.Chunks)
	s.Text(&sum)
	copy(n.Sum[:], sum)
}

// Replay handles a heartbeat again that a detector has handled, without publishing anything.
type Replay struct {
	Users identity.Users
	// Keys check frames of Topic, which is the full name of the heartbeats; nil: all frames count.
	Keys  *signing.Keys
	Topic string
	// LogEpoch and Offset say which heartbeat, User whose part in it is wanted.
	LogEpoch uint32
	Offset   int64
	User     schemas.UserID
	// SnapshotsFrom and SnapshotsTo bound where in their topic complete snapshots are looked for, as in a stream.ReadFunc.
	SnapshotsFrom, SnapshotsTo int64
}

// Replayed is what the detector knew of the user before and after a heartbeat, and the user's transitions at it.
type Replayed struct {
	From        int64                `json:"from_offset"`       // of the first heartbeat after the snapshot
	Refused     []string             `json:"refused,omitempty"` // why newer snapshots could not be used
	Before      *liveness.View       `json:"before,omitempty"`
	After       *liveness.View       `json:"after,omitempty"`
	Transitions []schemas.Transition `json:"-"`
}

// ErrNoSnapshot is why a heartbeat cannot be handled again.
var ErrNoSnapshot = errors.New("there is no snapshot of the detector's state from which the heartbeats up to this one are still there")

// Run loads the newest usable snapshot before the heartbeat, and handles what follows it. Of at, the partition and where
// its log starts count.
func (o Replay) Run(ctx context.Context, at stream.Assignment, read stream.ReadFunc) (*Replayed, error) {
	found, err := o.complete(ctx, at.LogStart, read)
	if err != nil {
		return nil, err
	}
	r := &Replayed{}
	for _, s := range found {
		p := NewPartition(Config{Settings: liveness.Defaults(), Users: o.Users, Keys: o.Keys, Topic: o.Topic, Now: time.Now,
			Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry())}, at.Partition)
		p.router = router{partition: at.Partition, partitions: at.Partitions}
		p.begin()
		err := p.loadNamed(ctx, s.Message, s.Offset, read)
		if err == nil && p.machine.LogEpoch() != o.LogEpoch {
			err = fmt.Errorf("%w: its log epoch is %d", errState, p.machine.LogEpoch())
		}
		if errors.Is(err, errState) {
			r.Refused = append(r.Refused, fmt.Sprintf("snapshot at offset %d: %v", s.Message.Next, err))
			continue
		}
		if err != nil {
			return nil, err
		}
		r.From = s.Message.Next
		return r, r.handle(ctx, p, &o, read)
	}
	return r, ErrNoSnapshot
}

// handle handles the heartbeats up to the wanted one.
func (r *Replayed) handle(ctx context.Context, p *Partition, o *Replay, read stream.ReadFunc) error {
	if err := p.run(ctx, r.From, o.Offset, read); err != nil {
		return err
	}
	r.Before = p.machine.View(o.User)
	p.out.Reset() // of the heartbeat before
	if err := p.run(ctx, o.Offset, o.Offset+1, read); err != nil {
		return err
	}
	r.After = p.machine.View(o.User)
	for i := range p.out.Transitions {
		if t := p.out.Transitions[i]; t.User == o.User {
			r.Transitions = append(r.Transitions, t)
		}
	}
	return nil
}

// complete lists the snapshots from which the heartbeats up to the wanted one are there, the newest first, with the
// offsets of their manifests.
func (o *Replay) complete(ctx context.Context, logStart int64, read stream.ReadFunc) (all []stream.Logged[schemas.SnapshotName], err error) {
	err = read(ctx, schemas.Snapshots, o.SnapshotsFrom, o.SnapshotsTo, func(r *schemas.Record) error {
		if string(r.Key) != manifestKey {
			return nil
		}
		s := snapshot.Codec{Reading: true, Bytes: r.Value}
		var name schemas.SnapshotName
		walkName(&s, &name)
		if s.Done() && name.Next >= logStart && name.Next <= o.Offset {
			all = append(all, stream.Logged[schemas.SnapshotName]{Offset: r.Offset, Message: name})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking for snapshots: %w", err)
	}
	slices.SortStableFunc(all, func(a, b stream.Logged[schemas.SnapshotName]) int {
		return cmp.Or(cmp.Compare(b.Message.Next, a.Message.Next), cmp.Compare(b.Offset, a.Offset))
	})
	return all, nil
}
