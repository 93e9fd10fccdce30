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
	return v.write(ctx, epoch, updates, "")
}

// Confirm writes the users that a rebuild has found and confirms entries that are as new or newer
// for the epoch of the rebuild; with replace, not newer ones: they are of a log that is gone. Since 0 stands for
// unknown times, Hidden 0 for an unknown version of the hide. names are those of the users; nil: none is known.
func (v *View) Confirm(ctx context.Context, epoch int64, found []schemas.Current, names []schemas.Name, replace bool) (int, error) {
	updates := make([]store.Update, len(found))
	for i, c := range found {
		updates[i] = store.Update{Current: c, SinceKnown: c.Since != 0, TimesKnown: c.Since != 0,
			HiddenKnown: c.Visibility != schemas.Nobody || c.Hidden != 0}
		if names != nil {
			updates[i].Name = names[i]
		}
	}
	confirm := "c"
	if replace {
		confirm = "cr"
	}
	return v.write(ctx, epoch, updates, confirm)
}

func (v *View) write(ctx context.Context, epoch int64, updates []store.Update, confirm string) (int, error) {
	perScript := usersPerScript
	if v.cluster {
		perScript = 1 // the keys of a script must lie in one slot
	}
	written := 0
	for len(updates) > 0 {
		batch := updates[:min(perScript*scriptsPerBatch, len(updates))]
		n, err := v.writeBatch(ctx, epoch, batch, perScript, confirm)
		if err == nil {
			err = v.forgetSeen(ctx, batch)
		}
		if err != nil {
			return written, fmt.Errorf("writing %d users to Redis: %w", len(updates), err)
		}
		written += n
		updates = updates[len(batch):]
	}
	return written, nil
}

// writeBatch writes in one pipeline.
func (v *View) writeBatch(ctx context.Context, epoch int64, updates []store.Update, perScript int, confirm string) (int, error) {
	var calls []scriptCall
	for start := 0; start < len(updates); start += perScript {
		some := updates[start:min(start+perScript, len(updates))]
		c := scriptCall{keys: make([]string, len(some)), arguments: make([]any, 1, 1+2*len(some))}
		c.arguments[0] = v.retention.Milliseconds()
		for i, u := range some {
			c.keys[i] = v.userKey(u.User)
			value := appendValue(nil, Entry{Current: u.Current, Epoch: epoch, Erased: u.OnlyErased()})
			if !u.OnlyErased() {
				value = appendTail(value, u.Name)
			}
			c.arguments = append(c.arguments, value, flags(u, confirm))
		}
		calls = append(calls, c)
	}
	return runScripts(ctx, v.client, writeScript, calls)
}

// forgetSeen deletes what the detector reported about users who have been erased. A row of the time
// before that comes later is refused by its version (seen.lua).
func (v *View) forgetSeen(ctx context.Context, updates []store.Update) error {
	_, err := v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, u := range updates {
			if u.Erased {
				p.Unlink(ctx, v.seenKey(u.User))
				p.Unlink(ctx, v.unsureKey(u.User))
			}
		}
		return nil
	})
	return err
}

// scriptCall is one call of a script that returns a number.
type scriptCall struct {
	keys      []string
	arguments []any
}

// runScripts runs the calls of a script in one pipeline and adds up what they return. It takes one
// round trip, or two if Redis does not know the script yet.
func runScripts(ctx context.Context, client redis.UniversalClient, script *redis.Script, calls []scriptCall) (int, error) {
	send := func(run func(redis.Scripter, scriptCall) *redis.Cmd) (int, error) {
		sum := 0
		commands, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
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
				return sum, err
			}
			sum += n
		}
		return sum, nil
	}
	sum, err := send(func(p redis.Scripter, c scriptCall) *redis.Cmd { return script.EvalSha(ctx, p, c.keys, c.arguments...) })
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		sum, err = send(func(p redis.Scripter, c scriptCall) *redis.Cmd { return script.Eval(ctx, p, c.keys, c.arguments...) })
	}
	return sum, err
}

func flags(u store.Update, text string) string {
	if u.SinceKnown {
		text += "s"
	}
	if u.HiddenKnown {
		text += "h"
	}
	if u.TimesKnown {
		text += "t"
	}
	if u.Erased {
		text += "e"
	}
	return text
}

// userKey is the key of a user. The braces are a cluster's hash tag.
func (v *View) userKey(user schemas.UserID) string { return v.prefix + "{" + user.String() + "}" }
