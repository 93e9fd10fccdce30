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

// askAgain is the pause before a store that did not tell is asked again.
const askAgain = 5 * time.Second

// watchTables ends the process when the tables of a store are too new for it, as
// soon as the store tells: it may be away at the start, and nobody waits for it.
func (h *house) watchTables(name string, of tables) {
	h.service("tables of the "+name, loops, func(ctx context.Context) error {
		for ctx.Err() == nil {
			told, err := h.lookAtTables(ctx, name, of)
			if err != nil {
				return err
			}
			wait := time.After(askAgain)
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

// lookAtTables tells whether the store has told; the error is that this program
// must not go on.
func (h *house) lookAtTables(ctx context.Context, name string, of tables) (told bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	state, err := of.Schema(ctx)
	switch {
	case errors.Is(err, migrate.ErrTooOld):
		return true, err
	case err != nil:
		return false, nil //nolint:nilerr // the store is away: health says so
	case state.Newer():
		h.log.Warn("a newer program has migrated the tables; this one can live with them", "store", name,
			"schema", state.Schema, "known", state.Known, "lives_with", state.Least)
	case state.Schema == 0:
		h.log.Warn("there are no tables yet, and nothing works without: run \"stillhere migrate\"", "store", name)
	case state.Behind():
		h.log.Warn("the tables are older than this program: run \"stillhere migrate\"", "store", name, "schema", state.Schema, "known", state.Known)
	}
	return true, nil
}
