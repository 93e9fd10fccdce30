// Package migrate updates the tables of a service, and keeps programs away from tables that they
// would misread. It knows no service and no driver: the caller passes an open database and the
// service's migrations.
//
// # Files
//
// A migration is a file NNNNN_name.sql in goose's form, never changed after its release. Its number
// is the number of the schema that it produces. A comment names the minimum compatible schema: the
// number of the newest migration that a program must know to use the tables after this one.
//
//	-- minimum compatible schema: 1
//
// # Old programs, new tables
//
// During an upgrade programs of both versions run, and after a failed one the older version
// returns. So a change of the tables has two steps in separate releases. First expand: new tables,
// columns with defaults, indexes; the comment names the same number as the migration before, and
// older programs keep working. Later, when no program needs the old form any more, contract: drop
// what is unused; the comment names the first schema whose programs did not use it. A program that
// is older than that is refused at its start (ErrTooOld) instead of failing at single queries. One
// that is older than the newest migration, but compatible, logs that and runs.
//
// # Concurrent starts
//
// Any number of processes may start at once: one migrates, the others wait, on Postgres for an
// advisory lock, on SQLite for a lock on a second file, which ends with its process. The minimum
// compatible schema is raised before the tables are changed: a kill in between refuses an old
// program too early, and the next process completes the migration.
package migrate
