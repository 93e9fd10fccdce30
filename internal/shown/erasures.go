package shown

import (
	"context"
	"log/slog"

	"github.com/stillhere/stillhere/internal/follow"
	"github.com/stillhere/stillhere/schemas"
)

// Erasures reads who was erased from when it was opened on. One goroutine at a time may use it.
type Erasures struct{ topic follow.Topic }

// NewErasures makes one.
func NewErasures(log follow.Log, logger *slog.Logger) *Erasures {
	return &Erasures{follow.Topic{Log: log, Logger: logger, Topic: schemas.Erasures,
		Failing: "the erasures of users cannot be read; users who go on sending heartbeats after one may have no name for some minutes"}}
}

// Open makes Run begin with the records that come after now. Call it before the first name is written.
func (e *Erasures) Open(ctx context.Context) error { return e.topic.AtEnd(ctx) }

// Run passes erased users to erased until ctx ends, each time 1 to schemas.MaxErasures of them. A user may
// come twice.
func (e *Erasures) Run(ctx context.Context, erased func(users []schemas.UserID)) error {
	return e.topic.Run(ctx, func(r *schemas.Record) error {
		users, err := schemas.DecodeErasures(r.Value)
		if err == nil {
			erased(users)
		}
		return err
	})
}
