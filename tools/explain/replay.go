package explain

import (
	"context"
	"errors"

	"github.com/stillhere/stillhere/detector"
	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// Replay is what the detector itself makes of the record: it was loaded from a snapshot and handled the heartbeats from
// there on.
type Replay struct {
	From    int64    `json:"from_offset"`       // of the first heartbeat after the snapshot
	Refused []string `json:"refused,omitempty"` // why newer snapshots could not be used
	// Agrees: the replay gave the published change. Produced is what it gave otherwise.
	Agrees   bool     `json:"agrees"`
	Produced []Change `json:"produced,omitempty"`
	// Before and After are what is known of the user before and after the record; nil where the reader may not know it.
	Before *User `json:"before,omitempty"`
	After  *User `json:"after,omitempty"`
}

// User is what the detector knows of a user.
type User struct {
	State      string         `json:"state"`
	Visibility string         `json:"visibility"`
	Since      schemas.Millis `json:"since,omitzero"`
	LastSeen   schemas.Millis `json:"last_seen_at,omitzero"`
	LastActive schemas.Millis `json:"last_active_at,omitzero"`
	Devices    []Device       `json:"devices,omitempty"`
	// Next is the next limit that may change the user. Waits: changes wait because the user changes too often.
	Next  schemas.Millis `json:"next_limit,omitzero"`
	Waits bool           `json:"waits,omitempty"`
	// Hid: some times may be of a time in which the user hid.
	Hid bool `json:"-"`
}

// Device is what the detector knows of a device by one gateway.
type Device struct {
	Device      uint32         `json:"device_id"`
	Kind        string         `json:"device_kind"`
	Gateway     string         `json:"gateway_id,omitempty"`
	Bye         bool           `json:"bye,omitempty"`
	Lost        bool           `json:"gateway_lost,omitempty"`
	Held        bool           `json:"held,omitempty"` // after Until, because another gateway may still hear it
	Seen        schemas.Millis `json:"seen_at"`
	Active      schemas.Millis `json:"active_at,omitzero"`
	Until       schemas.Millis `json:"until,omitzero"`
	ActiveUntil schemas.Millis `json:"active_until,omitzero"`
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
	e.Replay = &Replay{From: found.From, Refused: found.Refused, Before: userOf(&found.Before), After: userOf(&found.After)}
	for i := range found.Transitions {
		if again := &found.Transitions[i]; *again == *t {
			e.Replay.Agrees = true
			return nil, nil
		}
		other = append(other, transition{Time: of.Time, Message: &found.Transitions[i]})
	}
	return other, nil
}

func userOf(v *liveness.View) *User {
	visibility := schemas.Everyone
	if v.Hidden {
		visibility = schemas.Nobody
	}
	u := &User{State: schemas.StateWord(v.State), Visibility: schemas.VisibilityWord(visibility), Since: v.Since, LastSeen: v.LastSeen,
		LastActive: v.LastActive, Next: v.Next, Waits: v.Waits, Hid: v.Hid}
	for _, d := range v.Devices {
		u.Devices = append(u.Devices, Device{Device: uint32(d.Device), Kind: schemas.KindWord(d.Kind), Gateway: string(d.Gateway), Bye: d.Bye,
			Lost: d.Lost, Held: d.Held, Seen: d.Seen, Active: d.Active, Until: d.Until, ActiveUntil: d.ActiveUntil})
	}
	return u
}
