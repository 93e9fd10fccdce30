package redisview

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/schemas"
)

// Unsure says that from Version on no gateway can report a user since Since; 0: that has ended.
type Unsure struct {
	User    schemas.UserID
	Version schemas.Version
	Since   schemas.Millis
}

// unsureLifetime is how long an Unsure stays if nothing ends it: longer than users of a lost gateway
// stay present while the pipeline works.
const unsureLifetime = time.Hour

// An Unsure is stored as text of fixed width, in hexadecimal: 1 format "2" | 16 version | 12 since.
const (
	unsureSince  = 1 + 16
	unsureLength = unsureSince + 12
)

//go:embed unsure.lua
var unsureLua string

var unsureScript = redis.NewScript(unsureLua)

// unsureKey is in the slot of userKey.
func (v *View) unsureKey(user schemas.UserID) string {
	return v.prefix + "unsure:{" + user.String() + "}"
}

// WriteUnsure writes the records, which are in the order of the log, unless Redis has something newer
// of their users. It returns how many were written, and is idempotent.
func (v *View) WriteUnsure(ctx context.Context, records []Unsure) (int, error) {
	written, err := writeUsers(ctx, v, unsureScript, records, unsureLifetime.Milliseconds(), func(c *scriptCall, u *Unsure) {
		c.keys = append(c.keys, v.userKey(u.User), v.unsureKey(u.User))
		c.arguments = append(c.arguments, appendHex(appendHex([]byte{format}, int64(u.Version), 16), int64(u.Since), 12))
	}, nil)
	if err != nil {
		return written, fmt.Errorf("writing to Redis which of %d users are unsure: %w", len(records), err)
	}
	return written, nil
}

// Unsure returns what is known of the users, in their order.
func (v *View) Unsure(ctx context.Context, users []schemas.UserID) ([]Unsure, error) {
	found := make([]Unsure, len(users))
	err := v.getEach(ctx, len(users), func(i int) string { return v.unsureKey(users[i]) },
		func(i int, value string) { found[i] = parseUnsure(users[i], []byte(value)) })
	if err != nil {
		return nil, fmt.Errorf("reading from Redis which of %d users are unsure: %w", len(users), err)
	}
	return found, nil
}

// parseUnsure reads the stored form. Anything else counts as nothing.
func parseUnsure(user schemas.UserID, text []byte) Unsure {
	var bad uint64
	if len(text) != unsureLength || text[0] != format {
		return Unsure{}
	}
	u := Unsure{User: user, Version: schemas.Version(hex16(text[1:], &bad)), Since: schemas.Millis(hex12(text[unsureSince:], &bad))}
	if bad != 0 {
		return Unsure{}
	}
	return u
}
