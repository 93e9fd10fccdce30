package sqlitestore

import (
	"context"

	"github.com/stillhere/stillhere/schemas"
)

// DropBefore deletes changes of users; see store.TenantLog.
func (s *Store) DropBefore(ctx context.Context, users []schemas.UserID, before schemas.Millis, most int) (dropped int64, err error) {
	defer s.Wrap(&err, "dropping changes of %d users", len(users))
	const query = `DELETE FROM status_changes WHERE (user_id, at, version) IN (
		SELECT c.user_id, c.at, c.version FROM json_each(?1) AS asked JOIN status_changes c ON c.user_id = asked.value AND c.at < ?2 LIMIT ?3)`
	done, err := s.Writer.ExecContext(ctx, query, list(users), int64(before), most)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// Exclusively calls act: no other process has the file.
func (s *Store) Exclusively(ctx context.Context, act func(context.Context) error) error {
	return act(ctx)
}
