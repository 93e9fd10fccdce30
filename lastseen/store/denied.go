package store

import (
	"context"
	"math"

	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/schemas"
)

// wholeList is the viewer of the row whose version says as of when a user's list is complete.
const wholeList schemas.UserID = 0

// All is a limit beyond every list: while the log is read again, a list may be longer than schemas.MaxDenied.
const All = math.MaxInt32

// WriteDenies applies what the changes of a batch deny, in the batch's transaction. Each row has the version of the
// change that wrote it and gives way to newer ones alone, so that the order of changes does not matter. The list is
// complete as of a change if it was as of AudienceBefore.
func (t *Tables) WriteDenies(ctx context.Context, tx Queryer, changes []*schemas.Transition) error {
	none := func(Row) error { return nil }
	for _, c := range changes {
		if c.Denies == "" {
			continue
		}
		add, remove := c.Denies.Changes()
		if err := tx.Each(ctx, none, `INSERT INTO denied_viewers AS known (user_id, viewer_id, since, version)
			SELECT CAST($2 AS bigint), value, $3, CAST($4 AS bigint) FROM `+t.sql.Values+`
			WHERE value <> 0 OR CAST($5 AS bigint) = 0 OR EXISTS (SELECT 1 FROM denied_viewers
				WHERE user_id = CAST($2 AS bigint) AND viewer_id = 0 AND version >= CAST($5 AS bigint))
			ON CONFLICT (user_id, viewer_id) DO UPDATE SET since = excluded.since, version = excluded.version
			WHERE known.version < excluded.version`, t.sql.List(Numbers(append(add, wholeList))), int64(c.User),
			t.sql.Instant(c.At), int64(c.Version), int64(c.AudienceBefore)); err != nil {
			return err
		}
		if len(remove) == 0 {
			continue
		}
		if err := tx.Each(ctx, none, `DELETE FROM denied_viewers WHERE user_id = $2 AND version < $3 AND viewer_id `+t.sql.In,
			t.sql.List(Numbers(remove)), int64(c.User), int64(c.Version)); err != nil {
			return err
		}
	}
	return nil
}

// deniedColumns are those of scanDenied; where a list is not complete as of its user's row, the row knows better.
func (t *Tables) deniedColumns() string {
	return `SELECT d.user_id, viewer_id, ` + t.millis("since") + `, version, CASE WHEN viewer_id = 0 THEN coalesce(
		(SELECT override FROM user_presence p WHERE p.user_id = d.user_id), '') ELSE '' END FROM denied_viewers d `
}

// scanDenied reads a row. That of wholeList has a version, 0 if the list is not complete, and no time.
func scanDenied(row Row) (user schemas.UserID, d schemas.Denial, version schemas.Version, err error) {
	var override string
	if err := row.Scan((*int64)(&user), (*int64)(&d.Viewer), (*int64)(&d.At), (*int64)(&version), &override); err != nil {
		return 0, d, 0, err
	}
	if d.Viewer != wholeList {
		d.Version = version
		return user, d, 0, nil
	}
	o, err := schemas.OverrideOf(override)
	if version < o.Audience {
		version = 0
	}
	return user, schemas.Denial{}, version, err
}

// DeniedBy lists the viewers whom a user denies; see Reader.
func (t *Tables) DeniedBy(ctx context.Context, user, after schemas.UserID, limit int,
) (list []schemas.Denial, audience schemas.Version, err error) {
	defer t.Wrap(&err, "reading whom user %d denies", user)
	err = t.read.Each(ctx, func(row Row) error {
		_, d, version, err := scanDenied(row)
		if audience = max(audience, version); d.Viewer != wholeList && len(list) < limit {
			list = append(list, d)
		}
		return err
	}, t.deniedColumns()+`WHERE d.user_id = $1 AND (viewer_id = 0 OR viewer_id > $2) ORDER BY viewer_id LIMIT $3`,
		int64(user), int64(after), limit+1)
	return list, audience, err
}

// Denying reads who denies a viewer; see Reader.
func (t *Tables) Denying(ctx context.Context, viewer schemas.UserID, users []schemas.UserID,
) (found map[schemas.UserID]shown.Denying, err error) {
	defer t.Wrap(&err, "reading which of %d users deny user %d", len(users), viewer)
	found = map[schemas.UserID]shown.Denying{}
	if len(users) == 0 {
		return found, nil
	}
	return found, t.read.Each(ctx, func(row Row) error {
		user, d, version, err := scanDenied(row)
		known := found[user]
		found[user] = shown.Denying{Version: max(known.Version, version), Since: max(known.Since, d.At),
			Hidden: max(known.Hidden, d.Version)}
		return err
	}, t.deniedColumns()+`WHERE viewer_id IN (0, CAST($2 AS bigint)) AND d.user_id `+t.sql.In,
		t.sql.List(Numbers(users)), int64(viewer))
}
