package redisview

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/schemas"
)

// Read reads the entries of the users, in their order, and marks by which they, and
// the absence of one, may be judged: in one round trip, where nobody is absent or the
// marks are not known from the last quarter of a second, else in two.
func (v *View) Read(ctx context.Context, ids []schemas.UserID) ([]Entry, Marks, error) {
	read := v.readShared
	if v.cluster {
		read = v.readJudged
	}
	entries, marks, err := read(ctx, ids)
	if err != nil {
		return nil, nil, fmt.Errorf("reading %d users from Redis: %w", len(ids), err)
	}
	return entries, marks, nil
}

// readTogether returns marks that were read before the entries.
func (v *View) readTogether(ctx context.Context, ids []schemas.UserID) ([]Entry, *marksRead, error) {
	get, known := v.getMany(ctx, ids), v.knownMarks()
	var err error
	if known != nil {
		err = v.client.Process(ctx, get)
	} else {
		var fields *redis.MapStringStringCmd
		asking := v.asking()
		_, err = v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			fields = p.HGetAll(ctx, v.marksKey())
			return p.Process(ctx, get)
		})
		if err == nil {
			known = v.keepMarks(asking, fields.Val())
		}
	}
	if err != nil {
		return nil, nil, err
	}
	entries, err := parseReply(get.Val(), ids)
	return entries, known, err
}

// readOneByOne is readTogether for a cluster, where the keys of one command must lie
// in one slot, and the marks on another node may be read after what is asked for in
// the same pipeline: so they go first.
func (v *View) readOneByOne(ctx context.Context, ids []schemas.UserID) ([]Entry, *marksRead, error) {
	known := v.knownMarks()
	if known == nil {
		var err error
		if known, err = v.marksFromNow(ctx); err != nil {
			return nil, nil, err
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
	return entries, known, nil
}
