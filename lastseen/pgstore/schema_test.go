package pgstore

import (
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stillhere/stillhere/internal/migrate"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/pgtest"
	"github.com/stillhere/stillhere/schemas"
)

// A new device kind needs a migration that replaces presence_device_kinds.
func TestPostgresKnowsTheWordOfEveryDeviceKind(t *testing.T) {
	t.Parallel()
	store, all := newStore(t), schemas.SetOfKinds(schemas.Kinds[:]...).As(schemas.Online)
	rows := must.Get(store.pool.Query(t.Context(), `SELECT unnest(presence_device_kinds($1) || presence_active_kinds($1))`, int16(all)))(t)
	if words, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || !slices.Equal(words, slices.Repeat(all.Words(), 2)) {
		t.Errorf("presence_device_kinds(%d) and presence_active_kinds are %q (%v), want %q each", all, words, err, all.Words())
	}
}

// A new cause needs one that adds it.
func TestPostgresKnowsTheWordOfEveryCause(t *testing.T) {
	t.Parallel()
	rows := must.Get(newStore(t).pool.Query(t.Context(), `SELECT unnest(enum_range(NULL::presence_cause))::text`))(t)
	want := []string{schemas.CauseWord(0)}
	for _, cause := range schemas.Causes {
		want = append(want, schemas.CauseWord(cause))
	}
	if words, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || !slices.Equal(words, want) {
		t.Errorf("presence_cause is %q (%v), want %q", words, err, want)
	}
}

func TestAStoreReportsWhetherThisProgramCanUseItsTables(t *testing.T) {
	t.Parallel()
	config := newConfig(t)
	empty := must.Get(Open(t.Context(), config))(t)
	defer empty.Close()
	if state, err := empty.Schema(t.Context()); err != nil || !state.Behind() || state.Schema != 0 {
		t.Errorf("an empty database: %+v (%v)", state, err)
	}
	must.Do(t, Migrate(t.Context(), config))
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
		must.Do(t, pgtest.Exec(t.Context(), config.URL, step.sql))
		state, err := empty.Schema(t.Context())
		if state.Newer() != step.newer || errors.Is(err, migrate.ErrTooOld) != step.tooOld {
			t.Errorf("after %s: %+v (%v)", step.sql, state, err)
		}
		if err := Migrate(t.Context(), config); errors.Is(err, migrate.ErrTooOld) != step.tooOld || err != nil && !step.tooOld {
			t.Errorf("migrating after %s: %v", step.sql, err)
		}
	}
}
