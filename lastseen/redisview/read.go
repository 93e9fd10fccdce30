package redisview

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/schemas"
)

// Read returns the entries of the users, in their order, and the progress by which they and their
// absence are judged. It takes one round trip, or two if a user is absent and Redis may have been
// emptied meanwhile, or is a cluster.
func (v *View) Read(ctx context.Context, ids []schemas.UserID) ([]Entry, ProgressMap, error) {
	read := v.readShared
	if v.cluster {
		read = v.readChecked
	}
	entries, progress, err := read(ctx, ids)
	if err != nil {
		return nil, nil, fmt.Errorf("reading %d users from Redis: %w", len(ids), err)
	}
	return entries, progress, nil
}

// readTogether returns progress that was read before the entries, and whether it was surely still
// valid when the entries were read.
func (v *View) readTogether(ctx context.Context, ids []schemas.UserID) ([]Entry, *progressSnapshot, bool, error) {
	get, known := v.getMany(ctx, ids), v.recentProgress()
	var err error
	if known != nil {
		err = v.client.Process(ctx, get)
	} else {
		var asked progressRequest
		_, err = v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			asked = v.requestProgress(ctx, p)
			return p.Process(ctx, get)
		})
		if err == nil {
			known = v.keepProgress(asked)
		}
	}
	if err != nil {
		return nil, nil, false, err
	}
	entries, tag, err := parseReply(get.Val(), ids)
	return entries, known, len(tag) > 0 && string(tag) == known.tag, err
}

// readOneByOne is readTogether for a cluster. There the keys of one command must be in one slot,
// and the progress on another node may be read after the entries of the same pipeline, so it is
// read first.
func (v *View) readOneByOne(ctx context.Context, ids []schemas.UserID) ([]Entry, *progressSnapshot, bool, error) {
	known := v.recentProgress()
	if known == nil {
		var err error
		if known, err = v.freshProgress(ctx); err != nil {
			return nil, nil, false, err
		}
	}
	gets := make([]*redis.StringCmd, len(ids))
	_, err := v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, id := range ids {
			gets[i] = p.Get(ctx, v.userKey(id))
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, nil, false, err
	}
	entries := make([]Entry, len(ids))
	for i, get := range gets {
		switch err := get.Err(); {
		case err == nil:
			entries[i] = parseValue(ids[i], []byte(get.Val()))
		case !errors.Is(err, redis.Nil):
			return nil, nil, false, err
		}
	}
	return entries, known, false, nil
}
