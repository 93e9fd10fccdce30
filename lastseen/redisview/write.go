package redisview

import (
	"context"
	"fmt"

	_ "embed"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

//go:embed write.lua
var writeLua string

var writeScript = redis.NewScript(writeLua)

const (
	// usersPerScript bounds how long one script blocks Redis.
	usersPerScript = 100
	// scriptsPerBatch bounds the memory of one pipeline.
	scriptsPerBatch = 50
)

// Write writes updates under the given rebuild epoch, unless Redis has a newer version. It returns
// how many were written. It is idempotent.
func (v *View) Write(ctx context.Context, epoch int64, updates []store.Update) (int, error) {
	return v.write(ctx, epoch, updates, false)
}

// Confirm writes the users that a rebuild has found and confirms entries that are as new or newer
// for the epoch of the rebuild. Since 0 stands for unknown times, Hidden 0 for an unknown version
// of the hide.
func (v *View) Confirm(ctx context.Context, epoch int64, found []schemas.Current) (int, error) {
	updates := make([]store.Update, len(found))
	for i, c := range found {
		updates[i] = store.Update{Current: c, SinceKnown: c.Since != 0, TimesKnown: c.Since != 0,
			HiddenKnown: c.Visibility != schemas.Nobody || c.Hidden != 0}
	}
	return v.write(ctx, epoch, updates, true)
}

func (v *View) write(ctx context.Context, epoch int64, updates []store.Update, confirm bool) (int, error) {
	perScript := usersPerScript
	if v.cluster {
		perScript = 1 // the keys of a script must lie in one slot
	}
	written := 0
	for len(updates) > 0 {
		batch := updates[:min(perScript*scriptsPerBatch, len(updates))]
		n, err := v.writeBatch(ctx, epoch, batch, perScript, confirm)
		if err != nil {
			return written, fmt.Errorf("writing %d users to Redis: %w", len(updates), err)
		}
		written += n
		updates = updates[len(batch):]
	}
	return written, nil
}

// writeBatch takes one round trip, or two if Redis does not know the script yet.
func (v *View) writeBatch(ctx context.Context, epoch int64, updates []store.Update, perScript int, confirm bool) (int, error) {
	type call struct {
		keys      []string
		arguments []any
	}
	var calls []call
	for start := 0; start < len(updates); start += perScript {
		some := updates[start:min(start+perScript, len(updates))]
		c := call{keys: make([]string, len(some)), arguments: make([]any, 1, 1+2*len(some))}
		c.arguments[0] = v.retention.Milliseconds()
		for i, u := range some {
			c.keys[i] = v.userKey(u.User)
			c.arguments = append(c.arguments, appendValue(nil, Entry{Current: u.Current, Epoch: epoch}), flags(u, confirm))
		}
		calls = append(calls, c)
	}
	send := func(run func(redis.Scripter, call) *redis.Cmd) (int, error) {
		written := 0
		commands, err := v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, c := range calls {
				run(p, c)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		for _, command := range commands {
			n, err := command.(*redis.Cmd).Int()
			if err != nil {
				return written, err
			}
			written += n
		}
		return written, nil
	}
	written, err := send(func(p redis.Scripter, c call) *redis.Cmd { return writeScript.EvalSha(ctx, p, c.keys, c.arguments...) })
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		written, err = send(func(p redis.Scripter, c call) *redis.Cmd { return writeScript.Eval(ctx, p, c.keys, c.arguments...) })
	}
	return written, err
}

func flags(u store.Update, confirm bool) string {
	text := ""
	if u.SinceKnown {
		text += "s"
	}
	if u.HiddenKnown {
		text += "h"
	}
	if u.TimesKnown {
		text += "t"
	}
	if confirm {
		text += "c"
	}
	return text
}

// userKey is the key of a user. The braces are a cluster's hash tag.
func (v *View) userKey(user schemas.UserID) string { return v.prefix + "{" + user.String() + "}" }
