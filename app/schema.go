package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stillhere/stillhere/internal/migrate"
)

// schemaReporter is a store with tables that migrations change.
type schemaReporter interface {
	// Schema compares the tables with what this program knows. It returns migrate.ErrTooOld
	// if this program cannot work with them; any other error may pass.
	Schema(ctx context.Context) (migrate.State, error)
}

// schemaRetry is the pause before a store that did not answer is asked again.
const schemaRetry = 5 * time.Second

// schemaWatch ends the process if the tables of a store are too new for it. The store may
// be unreachable at the start, and the start does not wait for it.
func schemaWatch(name string, of schemaReporter, log *slog.Logger) component {
	return component{services: []service{{"schema of the " + name, loops, func(ctx context.Context) error {
		for ctx.Err() == nil {
			answered, err := checkSchema(ctx, name, of, log)
			if err != nil {
				return err
			}
			wait := time.After(schemaRetry)
			if answered {
				wait = nil
			}
			select {
			case <-wait:
			case <-ctx.Done():
			}
		}
		return nil
	}}}}
}

// checkSchema reports whether the store answered. The error says that this program cannot
// work with the tables.
func checkSchema(ctx context.Context, name string, of schemaReporter, log *slog.Logger) (answered bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	state, err := of.Schema(ctx)
	switch {
	case errors.Is(err, migrate.ErrTooOld):
		return true, err
	case err != nil:
		return false, nil //nolint:nilerr // the readiness check reports that the store is unreachable
	case state.Newer():
		log.Warn("a newer version has migrated the tables; this version still works with them", "store", name,
			"schema", state.Schema, "known", state.Known, "minimum_compatible", state.Least)
	case state.Schema == 0:
		log.Warn("the store has no tables: run \"stillhere migrate\"", "store", name)
	case state.Behind():
		log.Warn("the tables are older than this version: run \"stillhere migrate\"", "store", name, "schema", state.Schema, "known", state.Known)
	}
	return true, nil
}
