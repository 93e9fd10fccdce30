package pgstore

import (
	"errors"
	"testing"

	"github.com/stillhere/stillhere/internal/migrate"
	"github.com/stillhere/stillhere/internal/testkit/pgtest"
)

func TestAStoreTellsWhetherThisProgramCanLiveWithItsTables(t *testing.T) {
	t.Parallel()
	config := newConfig(t)
	empty, err := Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	if state, err := empty.Schema(t.Context()); err != nil || !state.Behind() || state.Schema != 0 {
		t.Errorf("an empty database: %+v (%v)", state, err)
	}
	if err := Migrate(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	state, err := empty.Schema(t.Context())
	if err != nil || state.Newer() || state.Behind() || state.Known < 1 {
		t.Errorf("migrated: %+v (%v)", state, err)
	}
	for _, step := range []struct {
		sql           string
		newer, tooOld bool
	}{
		{`UPDATE stillhere_schemas SET schema = schema + 2 WHERE room = 'lastseen'`, true, false},
		{`UPDATE stillhere_schemas SET lives_with = schema - 1 WHERE room = 'lastseen'`, true, true},
	} {
		if err := pgtest.Exec(t.Context(), config.URL, step.sql); err != nil {
			t.Fatal(err)
		}
		state, err := empty.Schema(t.Context())
		if state.Newer() != step.newer || errors.Is(err, migrate.ErrTooOld) != step.tooOld {
			t.Errorf("after %s: %+v (%v)", step.sql, state, err)
		}
		if err := Migrate(t.Context(), config); errors.Is(err, migrate.ErrTooOld) != step.tooOld || err != nil && !step.tooOld {
			t.Errorf("migrating after %s: %v", step.sql, err)
		}
	}
}
