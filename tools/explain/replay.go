package explain

import (
	"context"
	"errors"

	"github.com/stillhere/stillhere/detector"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// Replay is what the detector itself makes of the record: it was loaded from a snapshot and handled the heartbeats from
// there on. Before and After are nil where the reader may not know them.
type Replay struct {
	*detector.Replayed
	// Agrees: the replay gave the published change. Produced is what it gave otherwise.
	Agrees   bool     `json:"agrees"`
	Produced []Change `json:"produced,omitempty"`
}

// replay has the detector handle the record again, if there is a snapshot to begin from. It returns what that has
// produced instead of the transition.
func (e *Explanation) replay(ctx context.Context, cluster kafka.Config, reader *kafka.Reader, of transition) (other []transition, err error) {
	t := of.Message
	o := detector.Replay{Users: cluster.Users, Keys: cluster.Keys, Topic: e.Place.Topic, LogEpoch: t.Version.LogEpoch(), Offset: e.Place.Offset, User: t.User}
	// The newest snapshot is as old as that at most, and complete as soon.
	age := schemas.Millis(schemas.MinHeartbeats.Milliseconds()) + slack
	if o.SnapshotsFrom, err = reader.OffsetSince(ctx, schemas.Snapshots, of.Partition, e.Heartbeat.Time-age); err != nil {
		return nil, err
	}
	if o.SnapshotsTo, err = reader.OffsetSince(ctx, schemas.Snapshots, of.Partition, e.Heartbeat.Time+age); err != nil {
		return nil, err
	}
	at, err := reader.DescribePartition(ctx, schemas.Heartbeats, of.Partition)
	if err != nil {
		return nil, err
	}
	found, err := o.Run(ctx, at, func(ctx context.Context, topic schemas.Topic, from, to int64, each func(*schemas.Record) error) error {
		return reader.Read(ctx, topic, of.Partition, from, to, topic != schemas.Heartbeats, each)
	})
	if errors.Is(err, detector.ErrNoSnapshot) {
		e.NoReplay = err.Error()
		for _, why := range found.Refused {
			e.NoReplay += "; " + why
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e.NoReplay = ""
	e.Replay = &Replay{Replayed: found}
	for i := range found.Transitions {
		if again := &found.Transitions[i]; *again == *t {
			e.Replay.Agrees = true
			return nil, nil
		}
		other = append(other, transition{Time: of.Time, Message: &found.Transitions[i]})
	}
	return other, nil
}
