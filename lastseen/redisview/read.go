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
	entries := make([]Entry, len(ids))
	progress, err := v.ReadInto(ctx, ids, entries)
	if err != nil {
		return nil, nil, err
	}
	return entries, progress, nil
}

// ReadInto is Read into entries of the caller, one for each id. After an error they mean nothing.
func (v *View) ReadInto(ctx context.Context, ids []schemas.UserID, entries []Entry) (ProgressMap, error) {
	f, got, err := v.read(ctx, nil, ids)
	if err != nil {
		return nil, err
	}
	defer f.leave()
	for i, id := range ids {
		entries[i] = parseValue(id, got.of(i))
	}
	return f.progress, nil
}

// ReadBriefs is ReadInto of what lists of states show, for a caller that cannot leave.
func (v *View) ReadBriefs(limit *TimeLimit, ids []schemas.UserID, briefs []Brief) (ProgressMap, error) {
	f, got, err := v.read(context.Background(), limit, ids)
	if err != nil {
		return nil, err
	}
	defer f.leave()
	for i := range ids {
		briefs[i] = parseBrief(got.of(i))
	}
	return f.progress, nil
}

// read returns the values of the users, valid until the caller leaves the batch, which it must.
func (v *View) read(ctx context.Context, limit *TimeLimit, ids []schemas.UserID) (*readBatch, values, error) {
	f, got, err := v.readShared(ctx, limit, ids)
	if err != nil {
		return nil, nil, fmt.Errorf("reading %d users from Redis: %w", len(ids), err)
	}
	return f, got, nil
}

// readTogether returns progress that was read before the values, and whether it was surely still
// valid when the values were read.
func (v *View) readTogether(ctx context.Context, ids []schemas.UserID, got values) (*progressSnapshot, bool, error) {
	m, _ := mgets.Get().(*mget)
	defer mgets.Put(m)
	known, err := v.getMany(ctx, m, ids, got)
	if err != nil && ctx.Err() == nil {
		// The server may have closed a connection of the pool. go-redis does not repeat such a command.
		known, err = v.getMany(ctx, m, ids, got)
	}
	if err != nil {
		return nil, false, err
	}
	tag, err := m.end()
	return known, len(tag) > 0 && string(tag) == known.tag, err
}

// getMany returns the progress that was read before the values.
func (v *View) getMany(ctx context.Context, m *mget, ids []schemas.UserID, got values) (*progressSnapshot, error) {
	get := m.of(ctx, v.prefix, v.tagKey(), ids, got)
	if known := v.recentProgress(); known != nil {
		return known, v.client.Process(ctx, get)
	}
	var asked progressRequest
	_, err := v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		asked = v.requestProgress(ctx, p)
		return p.Process(ctx, get)
	})
	if err != nil {
		return nil, err
	}
	return v.keepProgress(asked), nil
}

// readOneByOne is readTogether for a cluster. There the keys of one command must be in one slot,
// and the progress on another node may be read after the values of the same pipeline, so it is
// read first.
func (v *View) readOneByOne(ctx context.Context, ids []schemas.UserID, got values) (*progressSnapshot, bool, error) {
	known := v.recentProgress()
	if known == nil {
		var err error
		if known, err = v.freshProgress(ctx); err != nil {
			return nil, false, err
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
		return nil, false, err
	}
	for i, get := range gets {
		switch err := get.Err(); {
		case err == nil:
			got.put(i, []byte(get.Val()))
		case errors.Is(err, redis.Nil):
			got.put(i, nil)
		default:
			return nil, false, err
		}
	}
	return known, false, nil
}
