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
	written, err := writeUsers(ctx, v, writeScript, updates, v.retention.Milliseconds(), func(c *scriptCall, u *store.Update) {
		value := appendValue(nil, Entry{Current: u.Current, Epoch: epoch, Erased: u.OnlyErased()})
		if !u.OnlyErased() {
			value = appendTail(value, u.Name)
		}
		c.keys, c.arguments = append(c.keys, v.userKey(u.User)), append(c.arguments, value, flags(u, confirm))
	}, func(batch []store.Update) error { return v.forgetSeen(ctx, batch) })
	if err != nil {
		return written, fmt.Errorf("writing %d users to Redis: %w", len(updates), err)
	}
	return written, nil
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

func flags(u *store.Update, text string) string {
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
