package projector

import (
	"context"
	"fmt"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// Unsure writes to Redis which users are present by devices of lost gateways alone, and since when.
// It is a handler of a consumer of the statuses. A Redis that was emptied does not have this again
// before the next status of a user: such a user then looks sure for the rest of the time until the
// window of the gateway ends.
type Unsure struct {
	view    *redisview.View
	config  lastseen.Config
	metrics *lastseen.Metrics
	changed func(ctx context.Context, users []schemas.UserID) error
}

// NewUnsure makes a handler. config must be valid. changed is called when Redis has another answer
// for users than before; if it returns an error, the batch comes again.
func NewUnsure(view *redisview.View, config lastseen.Config, metrics *lastseen.Metrics,
	changed func(ctx context.Context, users []schemas.UserID) error) *Unsure {
	metrics.UnsureUpdates.WithLabelValues("written") // a board shows 0 before the first
	return &Unsure{view: view, config: config, metrics: metrics, changed: changed}
}

// DecodeUnsure returns how to read the statuses, which check accepts. A status that says nothing of
// being unsure is no user.
func DecodeUnsure(check func(*schemas.Record, *schemas.Status) error) func(*schemas.Record) (redisview.Unsure, error) {
	return func(r *schemas.Record) (u redisview.Unsure, err error) {
		if r.Value == nil || schemas.IsRulesKey(r.Key) {
			return u, nil // a transition says what a tombstone does
		}
		s, err := schemas.DecodeStatus(r.Value)
		if err != nil {
			return u, err
		}
		if err := check(r, s); err != nil {
			return u, err
		}
		if s.Visibility == schemas.Nobody || s.UnsureSince == 0 && !s.UnsureEnded {
			return u, nil
		}
		return redisview.Unsure{User: s.User, Version: s.Version, Since: s.UnsureSince}, nil
	}
}

// Apply writes the batch. After an error the same batch may come again.
func (p *Unsure) Apply(ctx context.Context, batch stream.Batch[redisview.Unsure]) error {
	var records []redisview.Unsure
	var users []schemas.UserID
	for _, u := range batch.Items {
		if u.User != 0 {
			records, users = append(records, u), append(users, u.User)
		}
	}
	if len(records) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.config.WriteTimeout)
	defer cancel()
	written, err := p.view.WriteUnsure(ctx, records)
	if err == nil {
		err = p.changed(ctx, users)
	}
	if err != nil {
		return fmt.Errorf("partition %d: %w", batch.Partition, err)
	}
	p.metrics.UnsureUpdates.WithLabelValues("written").Add(float64(written))
	p.metrics.UnsureUpdates.WithLabelValues("older").Add(float64(len(records) - written))
	return nil
}
