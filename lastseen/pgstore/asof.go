package pgstore

import (
	"context"
	"fmt"

	_ "embed"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

var (
	//go:embed sql/as_of.sql
	asOfSQL string
	//go:embed sql/as_of_user.sql
	asOfUserSQL string
)

// lookBack is how many days before the instant are looked through for what was in
// force.
const lookBack = 2 * day

// AsOf calls each for every user of whom a change is known that happened at or
// before at, with what was in force then. Of entries, the event, the cause, the
// device and the policy are left out; From is To. The version of a user who has
// been offline from then until now is that of the newest change, which may be a
// later one of visibility.
func (s *Store) AsOf(ctx context.Context, at schemas.Millis, user schemas.UserID, each func(*store.Entry) error) error {
	sql, arguments := asOfSQL, []any{at.Time(), at.Time().Add(-lookBack)}
	if user != 0 {
		sql, arguments = asOfUserSQL, []any{at.Time(), int64(user)}
	}
	if err := s.export(ctx, sql, arguments, each); err != nil {
		return fmt.Errorf("reading what was in force at %s: %w", at, err)
	}
	return nil
}
