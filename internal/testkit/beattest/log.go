// Package beattest is a beat.Appender in memory for tests: it keeps
// what was appended, decoded, and fails or stalls as it is told.
package beattest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Written is a record that the log has taken.
type Written struct {
	At        time.Time
	Partition int32
	Key       []byte
	Gateway   schemas.GatewayID
	Epoch     schemas.Millis
	Sequence  uint64
	Draining  bool
	// Begins and Ends are of a replacement.
	Begins, Ends bool
	// User and one of the next four are set in a change of visibility.
	User       schemas.UserID
	Visibility schemas.Visibility
	Override   *schemas.Override
	LastSeen   schemas.LastSeen
	Denies     schemas.Denies
	// Erased and Until are set in an erasure.
	Erased schemas.UserID
	Until  schemas.Millis
	// Spread are the users of a record of the topic erasures.
	Spread []schemas.UserID
	Beats  []schemas.Beat
	// Names are those of the named rows, and of a change of visibility.
	Names map[schemas.UserID]schemas.Name
}

// Log is a beat.Appender in memory. Its zero value takes everything at once.
type Log struct {
	// Partitions is checked: a user must be in the partition of the record.
	Partitions int32
	// Delay is how long an append takes.
	Delay time.Duration
	// Took, if set, gets each record that the log has taken.
	Took func(Written)

	mu      sync.Mutex
	away    bool
	refuse  error
	topics  []schemas.Topic // of refuse; none: all
	written []Written
	alive   []Written
	tried   int
}

// Away makes the log take nothing: appends wait until their context ends, as
// they do while brokers cannot be reached.
func (l *Log) Away(away bool) { l.mu.Lock(); defer l.mu.Unlock(); l.away = away }

// Refuse makes appends fail at once, those to topics if there are any; nil ends it.
func (l *Log) Refuse(err error, topics ...schemas.Topic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse, l.topics = err, topics
}

// Tried is how many appends there were, whatever came of them.
func (l *Log) Tried() int { l.mu.Lock(); defer l.mu.Unlock(); return l.tried }

// Written is what the log has taken so far.
func (l *Log) Written() []Written {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Written(nil), l.written...)
}

// Alive are the frames in the topic gateways so far.
func (l *Log) Alive() []Written { l.mu.Lock(); defer l.mu.Unlock(); return slices.Clone(l.alive) }

// Beats are the beats in what the log has taken so far.
func (l *Log) Beats() []schemas.Beat {
	var beats []schemas.Beat
	for _, w := range l.Written() {
		beats = append(beats, w.Beats...)
	}
	return beats
}

// Append implements beat.Appender.
func (l *Log) Append(ctx context.Context, record schemas.Outgoing, done func(error)) {
	l.mu.Lock()
	l.tried++
	away, refuse := l.away, l.refuse
	all := len(l.topics) == 0 || slices.Contains(l.topics, record.Topic)
	l.mu.Unlock()
	switch {
	case refuse != nil && all:
		done(refuse)
	case away:
		context.AfterFunc(ctx, func() { done(ctx.Err()) })
	case l.Delay > 0:
		time.AfterFunc(l.Delay, func() { done(l.take(record)) })
	default:
		done(l.take(record))
	}
}

func (l *Log) take(record schemas.Outgoing) error {
	if record.Topic == schemas.Erasures {
		users, err := schemas.DecodeErasures(record.Value)
		if err == nil {
			l.add(Written{At: time.Now(), Partition: record.Partition, Key: record.Key, Spread: users})
		}
		return err
	}
	var frame schemas.Frame
	if record.Topic != schemas.Heartbeats && record.Topic != schemas.Gateways {
		return errors.New("not a record of heartbeats or gateways")
	}
	if err := frame.Decode(record.Value); err != nil {
		return err
	}
	if record.Topic == schemas.Gateways {
		if frame.Rows() > 0 || len(frame.Gateway) == 0 || record.Partition != 0 {
			return errors.New("not an empty frame of a gateway")
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.alive = append(l.alive,
			Written{At: time.Now(), Gateway: schemas.GatewayID(frame.Gateway), Epoch: frame.GatewayEpoch})
		return nil
	}
	w := Written{
		At: time.Now(), Partition: record.Partition, Key: record.Key, Gateway: schemas.GatewayID(frame.Gateway),
		Epoch: frame.GatewayEpoch, Sequence: frame.Sequence, Draining: frame.Draining, Begins: frame.Begins, Ends: frame.Ends,
		User: frame.VisibilityUser, Visibility: frame.Visibility, Override: frame.Override, LastSeen: frame.LastSeen, Denies: frame.Denies,
		Erased: frame.ErasedUser, Until: frame.ErasedUntil,
	}
	cursor := frame.Beats()
	for beat := (schemas.Beat{}); cursor.Next(&beat); {
		if l.Partitions > 0 && schemas.PartitionOf(beat.User, l.Partitions) != record.Partition {
			return fmt.Errorf("user %d is not of partition %d", beat.User, record.Partition)
		}
		w.Beats = append(w.Beats, beat)
	}
	name := func(user schemas.UserID, name schemas.Name) {
		if w.Names == nil {
			w.Names = map[schemas.UserID]schemas.Name{}
		}
		w.Names[user] = schemas.Name{Tenant: strings.Clone(name.Tenant), Text: strings.Clone(name.Text)}
	}
	if frame.VisibilityName.Text != "" {
		name(frame.VisibilityUser, frame.VisibilityName)
	}
	names := frame.Names()
	for row := (schemas.NamedRow{}); names.Next(&row); {
		name(w.Beats[row.Row].User, row.User())
	}
	l.add(w)
	return nil
}

func (l *Log) add(w Written) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written = append(l.written, w)
	if l.Took != nil {
		l.Took(w)
	}
}
