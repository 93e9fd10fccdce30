package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/lastseen/importer"
	"github.com/stillhere/stillhere/tools/dataset"
	"github.com/stillhere/stillhere/tools/progress"
)

// importCommand brings in what another system has recorded.
type importCommand struct {
	LastSeen importLastSeen `cmd:"" name:"last-seen" help:"Store when users were last seen, from a file of lines id,instant, with --ids text name,instant. It counts for users of whom nothing was published yet."`
}

// storeCommand is about a durable store.
type storeCommand struct {
	SQLite        string `name:"sqlite" help:"SQLite file instead of Postgres; dev keeps stillhere.db in its data directory." type:"path" group:"Store:"`
	postgresFlags `group:"Postgres:"`
}

// open opens the store, which close closes.
func (c *storeCommand) open(ctx context.Context) (opened dataset.Store, close func() error, err error) {
	if (c.Postgres == "") == (c.SQLite == "") {
		return nil, nil, misused(errors.New("--postgres, --sqlite: one of the two must name the store"))
	}
	if c.SQLite != "" {
		if _, err := os.Stat(c.SQLite); err != nil {
			return nil, nil, fmt.Errorf("--sqlite: %w", err)
		}
	}
	return dataset.OpenStore(ctx, app.Store{Postgres: c.Postgres, SQLite: c.SQLite}, c.postgres())
}

type importLastSeen struct {
	storeCommand
	namedFlags `group:"Users:"`
	File       string `arg:"" help:"The file. The instant is RFC 3339 or Unix milliseconds." type:"existingfile"`
}

// Run imports.
func (c *importLastSeen) Run(ctx context.Context) error {
	of, err := c.naming()
	if err != nil {
		return err
	}
	file, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	to, closeStore, err := c.open(ctx)
	if err != nil {
		return err
	}
	line, begun, bad := progress.Stderr(), time.Now(), 0
	r, err := importer.Run(ctx, to, file, importer.Options{
		Now: begun, Users: of.users, Tenant: of.tenant,
		Bad: func(number int64, err error) {
			if bad++; bad <= badShown {
				line.Note("line %d: %v", number, err)
			}
		},
		Progress: func(r importer.Report) {
			line.Say("%s", loadBar(r.Bytes, info.Size(), r.Line, time.Since(begun)))
		},
	})
	line.Clear()
	err = errors.Join(err, closeStore())
	if bad > badShown {
		line.Note("... and %d more bad lines", bad-badShown)
	}
	fmt.Printf("%d users read, %d stored, %d had a version or a later import, %d were erased, %d lines skipped, in %s\n",
		r.Users, r.Stored, r.Users-r.Stored-r.Erased, r.Erased, r.Bad, time.Since(begun).Round(time.Millisecond))
	if err != nil {
		return fmt.Errorf("everything up to line %d is stored; run the command again, a line that is read twice does no harm: %w", r.Line, err)
	}
	if r.Users == 0 && r.Bad > 0 {
		return fmt.Errorf("no line of %s is id,instant (with --ids text name,instant)", c.File)
	}
	return nil
}
