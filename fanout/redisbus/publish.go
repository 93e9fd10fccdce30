package redisbus

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/schemas"
)

//go:embed publish.lua
var publishLua string

var publishScript = redis.NewScript(publishLua)

// Publish stores each change under its user's recent key and publishes it on the user's channel,
// both or neither, unless the key has this version or a newer one. So a second try after an error
// publishes nothing twice while the key exists. It returns how many changes it published.
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
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
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
	for _, some := range b.calls(part) {
		keys := make([]string, 0, 2*len(some))
		args := append(make([]any, 0, 1+5*len(some)), server.publish)
		for _, c := range some {
			t := c.Transition
			ttl, carrySince := b.cfg.RecentFor, 1
			if c.Hides() {
				ttl, carrySince = max(b.cfg.RecentFor, b.cfg.HiddenFor), 0
			}
			if t.Cause == schemas.Erased {
				carrySince = 0
			}
			keys = append(keys, b.recentName(t.User), b.channelName(t.User))
			args = append(args, padded(int64(t.Version)), padded(int64(c.Since)), t.Encode(), ttl.Milliseconds(), carrySince)
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

// calls divides changes into calls of the script. All changes of a user are in one call, which runs whole
// or up to a change that fails: of two calls in a pipeline the first may fail alone, and Redis would have the newer
// change when the older one is sent again.
func (b *Bus) calls(changes []fanout.Change) (calls [][]fanout.Change) {
	length := scriptLength
	if b.cluster != nil {
		length = 1 // the keys of a script must lie in one slot
	}
	if len(changes) <= length {
		return [][]fanout.Change{changes}
	}
	of := make(map[schemas.UserID]int, len(changes))
	for _, c := range changes {
		i, known := of[c.Transition.User]
		if !known {
			if i = len(calls) - 1; i < 0 || len(calls[i]) >= length {
				i, calls = i+1, append(calls, nil)
			}
			of[c.Transition.User] = i
		}
		calls[i] = append(calls[i], c)
	}
	return calls
}

// rereadMessage on a user's channel says that the status has to be read again.
const rereadMessage = "reread"

// Reread makes the nodes with viewers of users read their current status again.
func (b *Bus) Reread(ctx context.Context, users []schemas.UserID) error {
	for part := range slices.Chunk(users, pipelineLength) {
		if err := b.rereadPart(ctx, part); err != nil {
			b.forgetCommands()
			return fmt.Errorf("publishing to Redis that %d users have another status: %w", len(users), err)
		}
	}
	return nil
}

func (b *Bus) rereadPart(ctx context.Context, users []schemas.UserID) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	server, err := b.serverCommands(ctx)
	if err != nil {
		return err
	}
	_, err = b.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, user := range users {
			p.Do(ctx, server.publish, b.channelName(user), rereadMessage)
		}
		return nil
	})
	return err
}

// Recent returns the newest stored change of each of users, in no order.
func (b *Bus) Recent(ctx context.Context, users []schemas.UserID) ([]fanout.Change, error) {
	if len(users) == 0 {
		return nil, nil
	}
	names := make([]string, len(users))
	for i, id := range users {
		names[i] = b.recentName(id)
	}
	stored, err := b.get(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("reading the recent changes of %d users: %w", len(users), err)
	}
	var changes []fanout.Change
	for i, value := range stored {
		text, ok := value.(string)
		if !ok {
			continue
		}
		c, err := parseRecent(text)
		if err != nil {
			b.unreadable("recent change cannot be read; ignoring it", "user_id", users[i], err)
			continue
		}
		changes = append(changes, c)
	}
	return changes, nil
}

// get reads keys, in their order; nil for keys that do not exist.
func (b *Bus) get(ctx context.Context, names []string) ([]any, error) {
	if b.cluster == nil {
		return b.client.MGet(ctx, names...).Result()
	}
	pipe := b.client.Pipeline() // which asks each node for its keys
	gets := make([]*redis.StringCmd, len(names))
	for i, name := range names {
		gets[i] = pipe.Get(ctx, name)
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	stored := make([]any, len(names))
	for i, get := range gets {
		switch text, err := get.Result(); {
		case err == nil:
			stored[i] = text
		case !errors.Is(err, redis.Nil):
			return nil, err
		}
	}
	return stored, nil
}
