package store

import "github.com/stillhere/stillhere/schemas"

// Row is a row of a query, of pgx or of database/sql. Instants are milliseconds; 0 is NULL.
type Row interface{ Scan(to ...any) error }

// scanPosition reads the row of a partition.
func scanPosition(row Row) (at Position, err error) {
	var topic *string
	if err = row.Scan(&at.Next, &topic, (*int64)(&at.Latest), &at.LogEpoch); err == nil && topic != nil {
		at.Topic, err = schemas.ParseTopicID(*topic)
	}
	return at, err
}

// topicOrNull is NULL for an unknown topic.
func topicOrNull(topic schemas.TopicID) *string {
	if !topic.Known() {
		return nil
	}
	return new(topic.String())
}

// scanCurrent reads a user with the columns of users.sql.
func scanCurrent(row Row) (c schemas.Current, err error) {
	var state, visibility, override string
	if err := row.Scan((*int64)(&c.User), &state, (*int64)(&c.Since), (*int64)(&c.LastSeen), (*int64)(&c.LastActive),
		(*uint16)(&c.Kinds), &visibility, (*int64)(&c.Version), (*int64)(&c.Hidden), &override); err != nil {
		return c, err
	}
	if c.State, err = schemas.ParseState("state", state); err != nil {
		return c, err
	}
	if c.Override, err = schemas.OverrideOf(override); err != nil {
		return c, err
	}
	c.Visibility, err = schemas.ParseVisibility("visibility", visibility)
	return c, err
}

// scanName reads a row of names.
func scanName(row Row) (n schemas.UserName, err error) {
	return n, row.Scan((*int64)(&n.User), &n.Name.Tenant, &n.Name.Text)
}

// scanChange reads a change of a visible user with the columns of history.sql.
func scanChange(user schemas.UserID, row Row) (*schemas.Transition, error) {
	var from, to, cause, override string
	t := &schemas.Transition{User: user, Visibility: schemas.Everyone}
	if err := row.Scan((*int64)(&t.At), (*int64)(&t.Version), (*uint32)(&t.Device), (*int64)(&t.LastSeen), (*int64)(&t.LastActive),
		&from, &to, &cause, (*uint16)(&t.Kinds), &t.Policy, &t.LeftOut, &override); err != nil {
		return nil, err
	}
	var err error
	if t.Override, err = schemas.OverrideOf(override); err != nil {
		return nil, err
	}
	return t, ParseWords(t, from, to, cause)
}

// scanMissed reads a change with the columns of missed.sql, and the user's last show up to it.
func scanMissed(row Row) (t *schemas.Transition, shown schemas.Millis, err error) {
	var user int64
	if t, err = scanChange(0, behind{row, []any{&user, (*int64)(&shown)}}); err == nil {
		t.User = schemas.UserID(user)
	}
	return t, shown, err
}

// behind is a row with further columns before those that its reader knows.
type behind struct {
	row   Row
	first []any
}

func (b behind) Scan(to ...any) error { return b.row.Scan(append(b.first, to...)...) }
