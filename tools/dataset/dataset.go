// Package dataset opens the sources of the commands for data teams: the topic of the transitions
// and, where one is named, the durable store.
package dataset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/origin"
	"github.com/stillhere/stillhere/lastseen/importer"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/lastseen/replay"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Sources are where data comes from.
type Sources struct {
	Log     replay.Log
	Reader  *kafka.Reader
	Archive replay.Archive // nil: none was named
	Writer  store.Writer   // the same store
	Names   *Names         // nil in int mode
	close   []func() error
}

// Open opens the sources. The store may be the zero one; limits are those of Postgres, with its
// password.
func Open(ctx context.Context, cluster kafka.Config, from app.Store, limits pgstore.Config, log *slog.Logger) (*Sources, error) {
	reader, err := kafka.NewReader(cluster, log)
	if err != nil {
		return nil, err
	}
	s := &Sources{Reader: reader, Log: Topic{reader, origin.New(cluster, reader, 0)}, close: []func() error{func() error { reader.Close(); return nil }}}
	if from != (app.Store{}) {
		opened, close, err := OpenStore(ctx, from, limits)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.Archive, s.Writer, s.close = opened, opened, append(s.close, close)
		s.Names = NewNames(cluster, reader, opened)
	} else {
		s.Names = NewNames(cluster, reader, nil)
	}
	return s, nil
}

// Store is a durable store as commands use it.
type Store interface {
	replay.Archive
	store.Writer
	store.Reader
	importer.Importer
	app.ExportStore
}

// OpenStore opens a store, which close closes. It must have its tables.
func OpenStore(ctx context.Context, from app.Store, limits pgstore.Config) (opened Store, close func() error, err error) {
	if from.SQLite != "" {
		config := sqlitestore.Defaults()
		config.Path = from.SQLite
		s, err := sqlitestore.Open(ctx, config)
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}
	limits.URL = from.Postgres
	s, err := pgstore.Open(ctx, limits)
	if err != nil {
		return nil, nil, err
	}
	if _, err := s.Schema(ctx); err != nil {
		s.Close()
		return nil, nil, err
	}
	return s, func() error { s.Close(); return nil }, nil
}

// Close closes what was opened.
func (s *Sources) Close() error {
	var faults []error
	for _, c := range s.close {
		faults = append(faults, c())
	}
	return errors.Join(faults...)
}

// Topic is the topic of the transitions as a replay reads it. A record that the detector cannot have
// written is returned without its value, so that it counts as unreadable.
type Topic struct {
	*kafka.Reader
	origin *origin.Origin // nil: everything is taken
}

var _ replay.Log = Topic{}

// Partitions is how many there are.
func (t Topic) Partitions(ctx context.Context) (int32, error) {
	n, err := t.Reader.Partitions(ctx, schemas.Transitions)
	if err != nil {
		return 0, fmt.Errorf("looking for the topic of the transitions: %w", err)
	}
	return n, nil
}

// Topic is the id of the topic that has the name now.
func (t Topic) Topic(ctx context.Context) (schemas.TopicID, error) {
	id, err := t.TopicID(ctx, schemas.Transitions)
	if err != nil {
		return id, fmt.Errorf("looking for the topic of the transitions: %w", err)
	}
	return id, nil
}

// Bounds are the first offset and the one after the last.
func (t Topic) Bounds(ctx context.Context, partition int32) (start, end int64, err error) {
	return t.Reader.Bounds(ctx, schemas.Transitions, partition)
}

// OffsetSince is the first offset published at or after since.
func (t Topic) OffsetSince(ctx context.Context, partition int32, since schemas.Millis) (int64, error) {
	return t.Reader.OffsetSince(ctx, schemas.Transitions, partition, since)
}

// Read reads a range, all of it.
func (t Topic) Read(ctx context.Context, partition int32, from, to int64, each func(*schemas.Record) error) error {
	var change schemas.Transition
	err := t.ReadComplete(ctx, schemas.Transitions, partition, from, to, func(r *schemas.Record) error {
		if t.origin != nil && change.Decode(r.Value) == nil {
			err := t.origin.Check(schemas.Transitions, r, &change)
			if bad := new(schemas.FieldError); errors.As(err, &bad) {
				r.Value = nil
			} else if err != nil {
				return err
			}
		}
		return each(r)
	})
	if errors.Is(err, kafka.ErrRecordsExpired) {
		return fmt.Errorf("%w: %w", replay.ErrOvertaken, err)
	}
	return err
}
