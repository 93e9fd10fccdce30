package redisview

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
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

// An Unsure is stored as text of fixed width, in hexadecimal: 1 format "1" | 16 version | 12 since.
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
	perScript := usersPerScript
	if v.cluster {
		perScript = 1 // the keys of a script must lie in one slot
	}
	written, all := 0, len(records)
	for len(records) > 0 {
		var calls []scriptCall
		for len(records) > 0 && len(calls) < scriptsPerBatch {
			n := min(perScript, len(records))
			c := scriptCall{arguments: append(make([]any, 0, 1+n), unsureLifetime.Milliseconds())}
			for i := range records[:n] {
				u := &records[i]
				c.keys = append(c.keys, v.userKey(u.User), v.unsureKey(u.User))
				value := appendHex([]byte{format}, int64(u.Version), 16)
				c.arguments = append(c.arguments, appendHex(value, int64(u.Since), 12))
			}
			calls, records = append(calls, c), records[n:]
		}
		n, err := runScripts(ctx, v.client, unsureScript, calls)
		if err != nil {
			return written, fmt.Errorf("writing to Redis which of %d users are unsure: %w", all, err)
		}
		written += n
	}
	return written, nil
}

// Unsure returns what is known of the users, in their order.
func (v *View) Unsure(ctx context.Context, users []schemas.UserID) ([]Unsure, error) {
	found := make([]Unsure, len(users))
	gets := make([]*redis.StringCmd, len(users))
	if _, err := v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, user := range users {
			gets[i] = p.Get(ctx, v.unsureKey(user))
		}
		return nil
	}); err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("reading from Redis which of %d users are unsure: %w", len(users), err)
	}
	for i, get := range gets {
		switch text, err := get.Bytes(); {
		case err == nil:
			found[i] = parseUnsure(users[i], text)
		case !errors.Is(err, redis.Nil):
			return nil, fmt.Errorf("reading from Redis whether user %s is unsure: %w", strconv.FormatInt(int64(users[i]), 10), err)
		}
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
