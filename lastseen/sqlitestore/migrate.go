package sqlitestore

import (
	"context"
	"embed"
	"io/fs"

	"github.com/stillhere/stillhere/internal/migrate"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema up to date, or finds it to be that of a newer program.
func (s *Store) migrate(ctx context.Context) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	s.schema, err = migrate.SQLite(ctx, s.writer, s.config.Path,
		migrate.Plan{Service: "lastseen", Files: files, Table: "stillhere_lastseen_migrations"})
	return err
}

// Schema tells how the tables stood to this program when the file was opened.
func (s *Store) Schema(context.Context) (migrate.State, error) { return s.schema, nil }
