package redisview

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/schemas"
)

// Read reads the entries of the users, in their order, and the marks, in one
// round trip. The marks may be a quarter of a second older than the entries.
func (v *View) Read(ctx context.Context, ids []schemas.UserID) ([]Entry, Marks, error) {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = v.userKey(id)
	}
	read := v.readTogether
	if v.cluster {
		read = v.readOneByOne // the keys of one command must lie in one slot
	}
	values, marks, err := read(ctx, keys)
	if err != nil {
		return nil, nil, fmt.Errorf("reading %d users from Redis: %w", len(ids), err)
	}
	entries := make([]Entry, len(ids))
	for i, value := range values {
		if text, ok := value.(string); ok {
			entries[i] = parseValue(ids[i], text)
		}
	}
	return entries, marks, nil
}

func (v *View) readTogether(ctx context.Context, keys []string) ([]any, Marks, error) {
	if marks := v.knownMarks(); marks != nil {
		values, err := v.client.MGet(ctx, keys...).Result()
		return values, marks, err
	}
	var (
		marks  *redis.MapStringStringCmd
		values *redis.SliceCmd
		asked  = time.Now()
	)
	_, err := v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		marks = p.HGetAll(ctx, v.marksKey())
		values = p.MGet(ctx, keys...)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return values.Val(), v.keepMarks(marks.Val(), asked), nil
}

func (v *View) readOneByOne(ctx context.Context, keys []string) ([]any, Marks, error) {
	var (
		marksCmd *redis.MapStringStringCmd
		gets     = make([]*redis.StringCmd, len(keys))
		marks    = v.knownMarks()
		asked    = time.Now()
	)
	_, err := v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		if marks == nil {
			marksCmd = p.HGetAll(ctx, v.marksKey())
		}
		for i, key := range keys {
			gets[i] = p.Get(ctx, key)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, nil, err
	}
	values := make([]any, len(keys))
	for i, get := range gets {
		switch err := get.Err(); {
		case err == nil:
			values[i] = get.Val()
		case !errors.Is(err, redis.Nil):
			return nil, nil, err
		}
	}
	if marksCmd == nil {
		return values, marks, nil
	}
	if err := marksCmd.Err(); err != nil {
		return nil, nil, err
	}
	return values, v.keepMarks(marksCmd.Val(), asked), nil
}
