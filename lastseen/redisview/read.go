package redisview

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/schemas"
)

// Read reads the entries of the users, in their order, and marks by which they, and
// the absence of one, may be judged: in one round trip, or two where somebody is
// absent and Redis may have been emptied meanwhile, or is a cluster.
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

// readTogether returns marks that were read before the entries, and whether they
// surely held also when the entries were read.
func (v *View) readTogether(ctx context.Context, ids []schemas.UserID) ([]Entry, *marksRead, bool, error) {
	get, known := v.getMany(ctx, ids), v.knownMarks()
	var err error
	if known != nil {
		err = v.client.Process(ctx, get)
	} else {
		var asked marksAsked
		_, err = v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			asked = v.askMarks(ctx, p)
			return p.Process(ctx, get)
		})
		if err == nil {
			known = v.keepMarks(asked)
		}
	}
	if err != nil {
		return nil, nil, false, err
	}
	entries, tag, err := parseReply(get.Val(), ids)
	return entries, known, len(tag) > 0 && string(tag) == known.tag, err
}

// readOneByOne is readTogether for a cluster, where the keys of one command must lie
// in one slot, and the marks on another node may be read after what is asked for in
// the same pipeline: so they go first.
func (v *View) readOneByOne(ctx context.Context, ids []schemas.UserID) ([]Entry, *marksRead, bool, error) {
	known := v.knownMarks()
	if known == nil {
		var err error
		if known, err = v.marksFromNow(ctx); err != nil {
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
