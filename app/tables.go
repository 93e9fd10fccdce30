package app

import (
	"context"
	"errors"
	"time"

	"github.com/stillhere/stillhere/internal/migrate"
)

// tables are those of a store that a room keeps.
type tables interface {
	// Schema tells how they stand to this program; migrate.ErrTooOld if it cannot live
	// with them. Any other error may pass.
	Schema(ctx context.Context) (migrate.State, error)
}

// schemaRetry is the pause before a store that did not tell is asked again.
const schemaRetry = 5 * time.Second

// watchSchema ends the process when the tables of a store are too new for it, as
// soon as the store tells: it may be away at the start, and nobody waits for it.
func (b *builder) watchSchema(name string, of tables) {
	b.service("tables of the "+name, loops, func(ctx context.Context) error {
		for ctx.Err() == nil {
			told, err := b.checkSchema(ctx, name, of)
			if err != nil {
				return err
			}
			wait := time.After(schemaRetry)
			if told {
				wait = nil
			}
			select {
			case <-wait:
			case <-ctx.Done():
			}
		}
		return nil
	})
}

// checkSchema tells whether the store has told; the error is that this program
// must not go on.
func (b *builder) checkSchema(ctx context.Context, name string, of tables) (told bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	state, err := of.Schema(ctx)
	switch {
	case errors.Is(err, migrate.ErrTooOld):
		return true, err
	case err != nil:
		return false, nil //nolint:nilerr // the store is away: health says so
	case state.Newer():
		b.log.Warn("a newer program has migrated the tables; this one can live with them", "store", name,
			"schema", state.Schema, "known", state.Known, "lives_with", state.Least)
	case state.Schema == 0:
		b.log.Warn("there are no tables yet, and nothing works without: run \"stillhere migrate\"", "store", name)
	case state.Behind():
		b.log.Warn("the tables are older than this program: run \"stillhere migrate\"", "store", name, "schema", state.Schema, "known", state.Known)
	}
	return true, nil
}
