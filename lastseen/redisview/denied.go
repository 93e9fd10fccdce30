package redisview

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	_ "embed"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/schemas"
)

//go:embed denied.lua
var deniedLua string

var deniedScript = redis.NewScript(deniedLua)

// A list of denied viewers is a hash. Its field asOf has the version, 16 hexadecimal digits; each other field is a
// viewer, with the instant since when and the version (denial). It has no lifetime, like the entry of its user.
const asOf = "v"

// deniedKey is in the slot of userKey.
func (v *View) deniedKey(user schemas.UserID) string {
	return v.prefix + "deny:{" + user.String() + "}"
}

// wantedKey is the key of the set of users whose lists were missed. It is one set for all partitions, because readers do
// not know how many there are.
func (v *View) wantedKey() string { return v.prefix + "wanted" }

// WriteDenies applies the changes that deny viewers or erase a user, and ignores others. They are in the order of the
// log. It is idempotent. A list that lacks a change before one of them is deleted.
func (v *View) WriteDenies(ctx context.Context, changes []*schemas.Transition) error {
	var calls []scriptCall
	for _, t := range changes {
		c := scriptCall{keys: []string{v.deniedKey(t.User), v.userKey(t.User)}}
		switch {
		case t.Cause == schemas.Erased:
			c.arguments = []any{"erase", appendHex(nil, int64(t.Version), 16)}
		case t.Denies != "":
			before := []byte(nil)
			if t.AudienceBefore != 0 {
				before = appendHex(nil, int64(t.AudienceBefore), 16)
			}
			add, remove := t.Denies.Changes()
			c.arguments = []any{"change", appendHex(nil, int64(t.Override.Audience), 16), before, denial(t.At, t.Version), len(add)}
			for _, viewer := range slices.Concat(add, remove) {
				c.arguments = append(c.arguments, int64(viewer))
			}
		default:
			continue
		}
		calls = append(calls, c)
	}
	for some := range slices.Chunk(calls, scriptsPerBatch) {
		if _, err := runScripts(ctx, v.client, deniedScript, some); err != nil {
			return fmt.Errorf("writing to Redis whom users deny: %w", err)
		}
	}
	return nil
}

// FillDenied writes the whole list of a user as of a version, unless Redis has a newer list, or an entry of the user
// that needs one, or has no entry with a list.
func (v *View) FillDenied(ctx context.Context, user schemas.UserID, audience schemas.Version, list []schemas.Denial) error {
	arguments := append(make([]any, 0, 2+2*len(list)), "fill", appendHex(nil, int64(audience), 16))
	for _, d := range list {
		arguments = append(arguments, int64(d.Viewer), denial(d.At, d.Version))
	}
	err := deniedScript.Run(ctx, v.client, []string{v.deniedKey(user), v.userKey(user)}, arguments...).Err()
	if err != nil {
		return fmt.Errorf("writing to Redis whom user %d denies: %w", user, err)
	}
	return nil
}

// TakeWanted returns at most limit users whose lists were missed, and forgets that they were.
func (v *View) TakeWanted(ctx context.Context, limit int64) ([]schemas.UserID, error) {
	taken, err := v.client.SPopN(ctx, v.wantedKey(), limit).Result()
	if err != nil {
		return nil, fmt.Errorf("reading from Redis which lists of denied viewers are wanted: %w", err)
	}
	var users []schemas.UserID
	for _, text := range taken {
		if user, err := strconv.ParseInt(text, 10, 64); err == nil {
			users = append(users, schemas.UserID(user))
		}
	}
	return users, nil
}

// want asks the projector to fill lists that were missed.
func (v *View) want(ctx context.Context, users []any) error {
	if len(users) == 0 {
		return nil
	}
	return v.client.SAdd(ctx, v.wantedKey(), users...).Err()
}

// Denying returns whether each of the users denies the viewer, in their order; the zero Denying where the list is
// missing, or older than at.
func (v *View) Denying(ctx context.Context, viewer schemas.UserID, users []schemas.UserID, at []schemas.Version) ([]shown.Denying, error) {
	found, asked := make([]shown.Denying, len(users)), make([]*redis.SliceCmd, len(users))
	_, err := v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, user := range users {
			asked[i] = p.HMGet(ctx, v.deniedKey(user), asOf, viewer.String())
		}
		return nil
	})
	var missed []any
	for i := 0; err == nil && i < len(users); i++ {
		version, _ := asked[i].Val()[0].(string)
		since, denied := asked[i].Val()[1].(string)
		d := shown.Denying{Version: versionOf(version)}
		if denied {
			d.Since, d.Hidden = parseDenial(since)
		}
		if d.Version == 0 || d.Version < at[i] {
			missed = append(missed, int64(users[i]))
			continue
		}
		found[i] = d
	}
	if err == nil {
		err = v.want(ctx, missed)
	}
	if err != nil {
		return nil, fmt.Errorf("reading from Redis which of %d users deny a viewer: %w", len(users), err)
	}
	return found, nil
}

// Denied returns whom the user denies, or shown.ErrBehind if the list is missing or older than at. With at 0 no list is
// an empty one.
func (v *View) Denied(ctx context.Context, user schemas.UserID, at schemas.Version) (shown.Denied, error) {
	fields, err := v.client.HGetAll(ctx, v.deniedKey(user)).Result()
	if err == nil && at == 0 && len(fields) == 0 {
		return shown.Denied{}, nil
	}
	d := shown.Denied{Version: versionOf(fields[asOf])}
	if err == nil && (d.Version == 0 || d.Version < at) {
		if err = v.want(ctx, []any{int64(user)}); err == nil {
			err = shown.ErrBehind
		}
	}
	if err != nil {
		return shown.Denied{}, fmt.Errorf("reading from Redis whom user %d denies: %w", user, err)
	}
	d.Viewers = make(map[schemas.UserID]schemas.Millis, len(fields)-1)
	for field, since := range fields {
		if viewer, err := strconv.ParseInt(field, 10, 64); err == nil {
			d.Viewers[schemas.UserID(viewer)], _ = parseDenial(since)
		}
	}
	return d, nil
}

// versionOf reads the field asOf; 0: it is not there, or nothing that this program writes.
func versionOf(text string) schemas.Version {
	n, err := strconv.ParseInt(text, 16, 64)
	if err != nil || len(text) != 16 {
		return 0
	}
	return schemas.Version(n)
}

// denial is the field of a viewer.
func denial(at schemas.Millis, version schemas.Version) []byte {
	return strconv.AppendInt(appendHex(nil, int64(version), 16), int64(at), 10)
}

// parseDenial reads it. What it cannot read denies nevertheless.
func parseDenial(text string) (since schemas.Millis, version schemas.Version) {
	end := min(16, len(text))
	n, _ := strconv.ParseInt(text[end:], 10, 64)
	return schemas.Millis(max(1, n)), versionOf(text[:end])
}
