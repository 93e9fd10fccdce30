package migrate_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	_ "github.com/jackc/pgx/v5/stdlib" // drivers
	_ "modernc.org/sqlite"

	"github.com/stillhere/stillhere/internal/migrate"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// database opens one and the same database again and again.
type database struct {
	open func(t *testing.T) *sql.DB
	up   func(ctx context.Context, db *sql.DB, plan migrate.Plan) (migrate.State, error)
}

// each runs a test on both kinds, each time in a database of its own.
func each(t *testing.T, test func(t *testing.T, d database)) {
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "test.db")
		test(t, database{
			open: func(t *testing.T) *sql.DB { return openDB(t, "sqlite", "file:"+path+"?_pragma=busy_timeout(10000)") },
			up: func(ctx context.Context, db *sql.DB, plan migrate.Plan) (migrate.State, error) {
				return migrate.SQLite(ctx, db, path, plan)
			},
		})
	})
	t.Run("Postgres", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		test(t, database{open: func(t *testing.T) *sql.DB { return openDB(t, "pgx", url) }, up: migrate.Postgres})
	})
}

func openDB(t *testing.T, driver, address string) *sql.DB {
	t.Helper()
	db := must.Get(sql.Open(driver, address))(t)
	t.Cleanup(func() {
		must.Do(t, db.Close())
	})
	return db
}

// Three programs: the second has expanded the tables, the third has given up what
// only the first needs.
func program(newest int) migrate.Plan {
	all := map[int]string{
		1: "-- minimum compatible schema: 1\n-- +goose Up\nCREATE TABLE people (id BIGINT PRIMARY KEY, name TEXT);",
		2: "-- minimum compatible schema: 1\n-- +goose Up\nALTER TABLE people ADD COLUMN nick TEXT;",
		3: "-- minimum compatible schema: 2\n-- +goose Up\nALTER TABLE people DROP COLUMN name;",
	}
	files := fstest.MapFS{}
	for n := 1; n <= newest; n++ {
		files[fmt.Sprintf("%05d_change.sql", n)] = &fstest.MapFile{Data: []byte(all[n])}
	}
	return migrate.Plan{Service: "people", Files: files, Table: "people_migrations", Lock: 77}
}

func TestAnOlderProgramGoesOnWithExpandedTablesAndIsRefusedByContractedOnes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d database) {
		db := d.open(t)
		for _, step := range []struct {
			program int
			want    migrate.State
			tooOld  bool
		}{
			{1, migrate.State{Schema: 1, Known: 1, Least: 1}, false},
			{2, migrate.State{Schema: 2, Known: 2, Least: 1}, false},
			{1, migrate.State{Schema: 2, Known: 1, Least: 1}, false}, // newer tables, which it can use
			{3, migrate.State{Schema: 3, Known: 3, Least: 2}, false},
			{2, migrate.State{Schema: 3, Known: 2, Least: 2}, false},
			{1, migrate.State{Schema: 3, Known: 1, Least: 2}, true},
			{3, migrate.State{Schema: 3, Known: 3, Least: 2}, false},
		} {
			got, err := d.up(t.Context(), db, program(step.program))
			if got != step.want || errors.Is(err, migrate.ErrTooOld) != step.tooOld || err != nil && !step.tooOld {
				t.Fatalf("program %d: %+v (%v), want %+v", step.program, got, err, step.want)
			}
			if step.tooOld && !strings.Contains(err.Error(), "people: this program is too old for the tables: the tables are at schema 3, this program knows schema 1, programs that know schema 2 or newer") {
				t.Errorf("it is told: %v", err)
			}
		}
		var schema, least int64
		if err := db.QueryRowContext(t.Context(), migrate.Question, "people").Scan(&schema, &least); err != nil || schema != 3 || least != 2 {
			t.Errorf("asked: %d, %d (%v)", schema, least, err)
		}
		if _, err := program(1).Compare(schema, least); !errors.Is(err, migrate.ErrTooOld) {
			t.Errorf("compared: %v", err)
		}
	})
}

func TestAMigrationThatIsCutShortShutsOutOldProgramsAndIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d database) {
		db := d.open(t)
		must.Get(d.up(t.Context(), db, program(2)))(t)
		broken := program(3)
		broken.Files.(fstest.MapFS)["00003_change.sql"] = &fstest.MapFile{Data: []byte("-- minimum compatible schema: 2\n-- +goose Up\nALTER TABLE nobody DROP COLUMN name;")}
		if _, err := d.up(t.Context(), db, broken); err == nil {
			t.Fatal("a broken migration went well")
		}
		if _, err := d.up(t.Context(), db, program(1)); !errors.Is(err, migrate.ErrTooOld) {
			t.Errorf("the first program: %v", err)
		}
		if got, err := d.up(t.Context(), db, program(3)); err != nil || got.Schema != 3 {
			t.Errorf("the next: %+v (%v)", got, err)
		}
	})
}

func TestProcessesThatStartAtOnceMigrateOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d database) {
		const processes = 6
		faults := make([]error, processes)
		var all sync.WaitGroup
		for i := range processes {
			db := d.open(t)
			all.Go(func() { _, faults[i] = d.up(t.Context(), db, program(3)) })
		}
		all.Wait()
		must.Do(t, errors.Join(faults...))
		var times int
		if err := d.open(t).QueryRowContext(t.Context(), `SELECT count(*) FROM people_migrations WHERE version_id > 0`).Scan(&times); err != nil || times != 3 {
			t.Errorf("%d migrations were applied (%v)", times, err)
		}
	})
}

func TestAMigrationMustSayWhichProgramsCanLiveWithIt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"CREATE TABLE a (b INT);": "must have one line",
		"-- minimum compatible schema: 1\n-- minimum compatible schema: 1\nSELECT": "must have one line",
		"-- minimum compatible schema: 2\nSELECT 1;":                               "must be between 1 and 1",
		"-- minimum compatible schema: 0\nSELECT 1;":                               "must be between 1 and 1",
	} {
		plan := migrate.Plan{Service: "people", Files: fstest.MapFS{"00001_x.sql": &fstest.MapFile{Data: []byte(text)}}}
		if _, err := plan.Compare(0, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	named := migrate.Plan{Service: "people", Files: fstest.MapFS{"first.sql": &fstest.MapFile{Data: []byte("-- minimum compatible schema: 1\n")}}}
	if _, err := named.Compare(0, 0); err == nil || !strings.Contains(err.Error(), "must be named like") {
		t.Errorf("named first.sql: %v", err)
	}
}
