package canary

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// locate finds out from where presence.transitions has to be read, if that is not known.
func (w *walk) locate(ctx context.Context) {
	if w.config.Log == nil || w.next >= 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, w.config.Timeout)
	defer cancel()
	partitions, err := w.config.Log.Partitions(ctx)
	if err == nil {
		w.partition = schemas.PartitionOf(w.user.ID, partitions)
		_, w.next, err = w.config.Log.Bounds(ctx, w.partition)
	}
	if w.located = err; err != nil {
		w.next = -1
	}
}

// replay reads what was published since the last round, and compares the user's changes after version
// base with what the stream has shown.
func (w *walk) replay(ctx context.Context, base schemas.Version) *failure {
	if w.config.Log == nil {
		return nil
	}
	if w.next < 0 {
		return failed(replay, w.located)
	}
	ctx, cancel := context.WithTimeout(ctx, w.config.Timeout)
	defer cancel()
	began := time.Now()
	_, end, err := w.config.Log.Bounds(ctx, w.partition)
	var published []schemas.Transition
	if err == nil {
		published, err = w.published(ctx, end, base)
	}
	if err != nil {
		w.next = -1 // the topic may be another one
		return failed(replay, err)
	}
	w.next = end
	if fault := compare(published, w.shown, w.user.Name); fault != nil {
		return fault
	}
	w.metrics.took(replay, time.Since(began))
	return nil
}

// published returns the user's changes of state from w.next up to but without end.
func (w *walk) published(ctx context.Context, end int64, base schemas.Version) (all []schemas.Transition, err error) {
	key := binary.BigEndian.AppendUint64(nil, uint64(w.user.ID))
	var t schemas.Transition
	err = w.config.Log.Read(ctx, w.partition, w.next, end, func(r *schemas.Record) error {
		if string(r.Key) == string(key) && t.Decode(r.Value) == nil && t.Version > base && t.From != t.To {
			all = append(all, t)
		}
		return nil
	})
	return all, err
}

// compare checks that each change is published once, that each continues the one before, that none has
// another name, and that all that the stream has shown are published.
func compare(published []schemas.Transition, shown []change, name schemas.Name) *failure {
	states := map[schemas.Version]schemas.State{}
	for i, t := range published {
		if _, twice := states[t.Version]; twice {
			return &failure{replay, doubled, fmt.Errorf("presence.transitions has version %d twice", t.Version)}
		}
		states[t.Version] = t.To
		if t.Name != name && t.Name != (schemas.Name{}) {
			return &failure{replay, wrong, fmt.Errorf("version %d in presence.transitions is of user %s, who has the same id", t.Version, t.Name)}
		}
		if i > 0 && (t.From != published[i-1].To || t.Version < published[i-1].Version) {
			return &failure{replay, wrong, fmt.Errorf("version %d in presence.transitions does not continue version %d",
				t.Version, published[i-1].Version)}
		}
	}
	for i, c := range shown {
		if i > 0 && c.state == shown[i-1].state {
			continue // a change of devices
		}
		state, ok := states[c.version]
		switch {
		case !ok:
			return &failure{replay, missing, fmt.Errorf("the stream has shown version %d, which presence.transitions lacks", c.version)}
		case state != c.state:
			return &failure{replay, wrong, fmt.Errorf("the stream has shown version %d as %s, presence.transitions has %s",
				c.version, schemas.StateWord(c.state), schemas.StateWord(state))}
		}
	}
	return nil
}
