package migrate

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
)

var (
	numbered      = regexp.MustCompile(`^(\d+)_[a-z0-9_]+\.sql$`)
	minimumSchema = regexp.MustCompile(`(?m)^-- minimum compatible schema: (\d+)\s*$`)
)

// known reads from the files the newest schema and the oldest program that can use it.
func (p Plan) known() (State, error) {
	var s State
	files, err := fs.ReadDir(p.Files, ".")
	if err != nil {
		return s, fmt.Errorf("%s: looking for its migrations: %w", p.Service, err)
	}
	for _, file := range files {
		match := numbered.FindStringSubmatch(file.Name())
		if match == nil {
			return s, fmt.Errorf("%s: the migration %s must be named like 00001_what.sql", p.Service, file.Name())
		}
		number, err := strconv.ParseInt(match[1], 10, 64)
		if err != nil {
			return s, fmt.Errorf("%s: the migration %s: %w", p.Service, file.Name(), err)
		}
		least, err := p.least(file.Name(), number)
		if err != nil {
			return s, err
		}
		s.Known, s.Least = max(s.Known, number), max(s.Least, least)
	}
	if s.Known == 0 {
		return s, fmt.Errorf("%s: there are no migrations", p.Service)
	}
	return s, nil
}

// least is the oldest program that can use the tables after a migration.
func (p Plan) least(name string, number int64) (int64, error) {
	text, err := fs.ReadFile(p.Files, path.Clean(name))
	if err != nil {
		return 0, fmt.Errorf("%s: reading the migration %s: %w", p.Service, name, err)
	}
	said := minimumSchema.FindAllSubmatch(text, -1)
	if len(said) != 1 {
		return 0, fmt.Errorf("%s: the migration %s must have one line \"-- minimum compatible schema: NUMBER\": the newest schema that the oldest program that can still use the tables knows", p.Service, name)
	}
	least, err := strconv.ParseInt(string(bytes.TrimSpace(said[0][1])), 10, 64)
	if err != nil || least < 1 || least > number {
		return 0, fmt.Errorf("%s: the migration %s: minimum compatible schema: must be between 1 and %d", p.Service, name, number)
	}
	return least, nil
}

// schemaTable is the table that tells older programs whether they can use the tables.
type schemaTable struct {
	db      *sql.DB
	service string
}

func (b schemaTable) make(ctx context.Context) error {
	const table = `CREATE TABLE IF NOT EXISTS stillhere_schemas (room TEXT PRIMARY KEY, schema BIGINT NOT NULL, lives_with BIGINT NOT NULL)`
	if _, err := b.db.ExecContext(ctx, table); err != nil {
		return fmt.Errorf("%s: making the table of schemas: %w", b.service, err)
	}
	return nil
}

// read is what is kept; zeroes when nothing is.
func (b schemaTable) read(ctx context.Context) (schema, least int64, err error) {
	err = b.db.QueryRowContext(ctx, Question, b.service).Scan(&schema, &least)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, 0, fmt.Errorf("%s: reading the schema's number: %w", b.service, err)
	}
	return schema, least, nil
}

func (b schemaTable) write(ctx context.Context, s State) error {
	const keep = `INSERT INTO stillhere_schemas (room, schema, lives_with) VALUES ($1, $2, $3)
		ON CONFLICT (room) DO UPDATE SET schema = excluded.schema, lives_with = excluded.lives_with
		WHERE (stillhere_schemas.schema, stillhere_schemas.lives_with) <> (excluded.schema, excluded.lives_with)`
	if _, err := b.db.ExecContext(ctx, keep, b.service, s.Schema, s.Least); err != nil {
		return fmt.Errorf("%s: keeping the schema's number: %w", b.service, err)
	}
	return nil
}
