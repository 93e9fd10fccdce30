package redisbus

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/schemas"
)

//go:embed publish.lua
var publishLua string

var publishScript = redis.NewScript(publishLua)

// Publish keeps each change under its user's recent key and publishes it on the
// user's channel, unless one as new is kept already: both or neither, so trying
// again after an error sends nothing twice while the key lives. It reports how many
// it published.
func (b *Bus) Publish(ctx context.Context, changes []fanout.Change) (sent int, err error) {
	for part := range slices.Chunk(changes, pipelineLength) {
		n, err := b.publishPart(ctx, part)
		sent += n
		if err != nil {
			b.forgetCommands()
			return sent, err
		}
	}
	return sent, nil
}

func (b *Bus) publishPart(ctx context.Context, part []fanout.Change) (sent int, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	server, err := b.serverCommands(ctx)
	if err != nil {
		return 0, err
	}
	sent, err = b.runScripts(ctx, server, part)
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		if err := publishScript.Load(ctx, b.client).Err(); err != nil {
			return sent, fmt.Errorf("loading the publishing script: %w", err)
		}
		var more int
		more, err = b.runScripts(ctx, server, part)
		sent += more
	}
	if err != nil {
		return sent, fmt.Errorf("publishing to Redis: %w", err)
	}
	return sent, nil
}

func (b *Bus) runScripts(ctx context.Context, server *commands, part []fanout.Change) (sent int, err error) {
	pipe := b.client.Pipeline()
	var answers []*redis.Cmd
	length := scriptLength
	if b.cluster != nil {
		length = 1 // the keys of a script must lie in one slot
	}
	for some := range slices.Chunk(part, length) {
		keys := make([]string, 0, 2*len(some))
		args := append(make([]any, 0, 1+5*len(some)), server.publish)
		for _, c := range some {
			t := c.Transition
			keep, carrySince := b.cfg.RecentFor, 1
			if c.Hides() {
				keep, carrySince = max(b.cfg.RecentFor, b.cfg.HiddenFor), 0
			}
			keys = append(keys, b.recentName(t.User), b.channelName(t.User))
			args = append(args, padded(int64(t.Version)), padded(int64(c.Since)), t.Encode(), keep.Milliseconds(), carrySince)
		}
		answers = append(answers, publishScript.EvalSha(ctx, pipe, keys, args...))
	}
	_, err = pipe.Exec(ctx)
	for _, answer := range answers {
		if n, failed := answer.Int(); failed == nil {
			sent += n
		}
	}
	return sent, err
}

// Recent is the newest change of each of users that is still kept, in no order.
func (b *Bus) Recent(ctx context.Context, users []schemas.UserID) ([]fanout.Change, error) {
	if len(users) == 0 {
		return nil, nil
	}
	names := make([]string, len(users))
	for i, id := range users {
		names[i] = b.recentName(id)
	}
	kept, err := b.keptUnder(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("reading the recent changes of %d users: %w", len(users), err)
	}
	var changes []fanout.Change
	for i, value := range kept {
		text, ok := value.(string)
		if !ok {
			continue // none kept
		}
		c, err := parseRecent(text)
		if err != nil {
			// As on the channel: what a newer program wrote is left to newer programs.
			b.metrics.BusUnreadable.Inc()
			b.log.Warn("recent change that cannot be read", "user_id", users[i], "error", err)
			continue
		}
		changes = append(changes, c)
	}
	return changes, nil
}

// keptUnder reads the keys, in their order; nil for those that are not there.
func (b *Bus) keptUnder(ctx context.Context, names []string) ([]any, error) {
	if b.cluster == nil {
		return b.client.MGet(ctx, names...).Result()
	}
	pipe := b.client.Pipeline() // which asks each node for what it has
	gets := make([]*redis.StringCmd, len(names))
	for i, name := range names {
		gets[i] = pipe.Get(ctx, name)
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	kept := make([]any, len(names))
	for i, get := range gets {
		switch text, err := get.Result(); {
		case err == nil:
			kept[i] = text
		case !errors.Is(err, redis.Nil):
			return nil, err
		}
	}
	return kept, nil
}
