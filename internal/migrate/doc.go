// Package migrate brings the tables of a room up to date, and keeps programs away
// from tables that they would misread. It knows no room and no driver: it is given
// an open database and the room's files.
//
// # Files
//
// A migration is a file NNNNN_name.sql in goose's form, never changed once it was
// published. Its number is the number of the schema that it leads to. A comment says
// which programs can use the tables as they are after it, by the number of the
// newest migration that these know:
//
//	-- minimum compatible schema: 1
//
// # Old programs, new tables
//
// During an upgrade programs of both versions run, and after one that went wrong the
// older comes back. So a change of the tables goes in two steps that are published
// apart. First expand: new tables, columns with defaults, indexes; the comment names
// the same number as the migration before it, and older programs go on. Later, when
// no program that needs the old form is left, contract: what nobody uses any more is
// dropped, and the comment names the first schema whose programs did not use it.
// A program that is older than that is refused at its start (ErrTooOld) rather than
// answered with errors one by one; one that is older than the newest migration, but
// not too old, is told and goes on.
//
// # At the same time
//
// Any number of processes may start at once: one works, the others wait for it, on
// Postgres by an advisory lock, on SQLite by a lock on a second file, which ends with
// the process that holds it. The bound for older programs is raised before the tables
// are changed: a process that is killed in between has shut out somebody too early,
// and the next one finishes its work.
package migrate
