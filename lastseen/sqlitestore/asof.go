package sqlitestore

import (
	"context"
	"fmt"

	_ "embed"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

//go:embed sql/as_of.sql
var asOfSQL string

// AsOf calls each for every user of whom a change is known that happened at or
// before at, with what was in force then. Of entries, the event, the cause, the
// device and the policy are left out; From is To.
func (s *Store) AsOf(ctx context.Context, at schemas.Millis, user schemas.UserID, each func(*store.Entry) error) error {
	if err := s.export(ctx, asOfSQL, []any{int64(at), int64(user)}, each); err != nil {
		return fmt.Errorf("reading what was in force at %s: %w", at, err)
	}
	return nil
}
