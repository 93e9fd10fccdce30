package redisview

import (
	"context"
	"fmt"
	"strconv"

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
	f, got, err := v.readShared(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("reading %d users from Redis: %w", len(ids), err)
	}
	defer f.leave()
	copy(entries, got[:len(ids)])
	return f.progress, nil
}

// readTogether returns progress that was read before the entries, and whether it was surely still
// valid when the entries were read: the rebuild tag, the last value of the same MGET, is the same.
func (v *View) readTogether(ctx context.Context, ids []schemas.UserID, got []Entry) (*progressSnapshot, bool, error) {
	get := v.mget(ctx, ids)
	known := v.recentProgress()
	if known != nil {
		_ = v.client.Process(ctx, get) // Result has its error
	} else {
		var asked progressRequest
		_, err := v.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			asked = v.requestProgress(ctx, p)
			return p.Process(ctx, get)
		})
		if err != nil {
			return nil, false, err
		}
		known = v.keepProgress(asked)
	}
	values, err := get.Result()
	if err != nil {
		return nil, false, err
	}
	for i, id := range ids {
		value, _ := values[i].(string) // nil: there is none
		got[i] = parseValue(id, value)
	}
	tag, _ := values[len(ids)].(string)
	return known, tag != "" && tag == known.tag, nil
}

// mget is an MGET of the users and, last, of the rebuild tag. All keys share one text, and pointers to
// them need no allocation, as client.MGet would for each key.
func (v *View) mget(ctx context.Context, ids []schemas.UserID) *redis.SliceCmd {
	text := make([]byte, 0, len(ids)*(len(v.prefix)+len("{}")+19))
	ends := make([]int, len(ids))
	for i, id := range ids {
		text = append(strconv.AppendInt(append(append(text, v.prefix...), '{'), int64(id), 10), '}')
		ends[i] = len(text)
	}
	keys, arguments, from, all := make([]string, len(ids)+1), make([]any, 1, len(ids)+2), 0, string(text)
	arguments[0] = "mget"
	for i, end := range ends {
		keys[i], from = all[from:end], end
	}
	keys[len(ids)] = v.tagKey()
	for i := range keys {
		arguments = append(arguments, &keys[i])
	}
	return redis.NewSliceCmd(ctx, arguments...)
}

// readOneByOne is readTogether for a cluster. There the keys of one command must be in one slot,
// and the progress on another node may be read after the values of the same pipeline, so it is
// read first.
func (v *View) readOneByOne(ctx context.Context, ids []schemas.UserID, got []Entry) (*progressSnapshot, bool, error) {
	known := v.recentProgress()
	if known == nil {
		var err error
		if known, err = v.freshProgress(ctx); err != nil {
			return nil, false, err
		}
	}
	err := v.getEach(ctx, len(ids), func(i int) string { return v.userKey(ids[i]) },
		func(i int, value string) { got[i] = parseValue(ids[i], value) })
	return known, false, err
}
