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
	read := v.readShared
	if v.cluster {
		read = v.readOneByOne // the keys of one command must lie in one slot
	}
	entries, marks, err := read(ctx, ids)
	if err != nil {
		return nil, nil, fmt.Errorf("reading %d users from Redis: %w", len(ids), err)
	}
	return entries, marks, nil
}

func (v *View) readTogether(ctx context.Context, ids []schemas.UserID) ([]Entry, Marks, error) {
	get, known := v.getMany(ctx, ids), v.knownMarks()
	var err error
	if known != nil {
		err = v.client.Process(ctx, get)
	} else {
		var marks *redis.MapStringStringCmd
		asked := time.Now()
		_, err = v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			marks = p.HGetAll(ctx, v.marksKey())
			return p.Process(ctx, get)
		})
		if err == nil {
			known = v.keepMarks(marks.Val(), asked)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	entries, err := parseReply(get.Val(), ids)
	return entries, known, err
}

func (v *View) readOneByOne(ctx context.Context, ids []schemas.UserID) ([]Entry, Marks, error) {
	var (
		marksCmd *redis.MapStringStringCmd
		gets     = make([]*redis.StringCmd, len(ids))
		marks    = v.knownMarks()
		asked    = time.Now()
	)
	_, err := v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		if marks == nil {
			marksCmd = p.HGetAll(ctx, v.marksKey())
		}
		for i, id := range ids {
			gets[i] = p.Get(ctx, v.userKey(id))
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, nil, err
	}
	entries := make([]Entry, len(ids))
	for i, get := range gets {
		switch err := get.Err(); {
		case err == nil:
			entries[i] = parseValue(ids[i], []byte(get.Val()))
		case !errors.Is(err, redis.Nil):
			return nil, nil, err
		}
	}
	if marksCmd == nil {
		return entries, marks, nil
	}
	if err := marksCmd.Err(); err != nil {
		return nil, nil, err
	}
	return entries, v.keepMarks(marksCmd.Val(), asked), nil
}
