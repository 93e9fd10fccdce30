package redisview

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/schemas"
)

// getMany is an MGET of the users and, last, the rebuild tag. The answer stays raw, so that values
// are neither copied nor boxed before they become an Entry.
func (v *View) getMany(ctx context.Context, ids []schemas.UserID) *redis.RawCmd {
	text := make([]byte, 0, len(ids)*(len(v.prefix)+maxKeyRest))
	ends := make([]int, len(ids))
	for i, id := range ids {
		text = append(append(text, v.prefix...), '{')
		text = append(strconv.AppendInt(text, int64(id), 10), '}')
		ends[i] = len(text)
	}
	all, from := string(text), 0
	keys, arguments := make([]string, len(ids)), make([]any, len(ids)+2)
	arguments[0] = "mget"
	for i, end := range ends {
		keys[i] = all[from:end]
		arguments[i+1] = &keys[i]
		from = end
	}
	arguments[len(ids)+1] = v.tagKey()
	return redis.NewRawCmd(ctx, arguments...)
}

// maxKeyRest is the greatest length of a key without the prefix.
const maxKeyRest = 21

var errReply = errors.New("the server's answer cannot be read")

// parseReply reads the answer to getMany, in RESP2 or RESP3. The tag is part of it; empty = none.
func parseReply(reply []byte, ids []schemas.UserID) (entries []Entry, tag []byte, err error) {
	kind, n, rest, ok := replyHead(reply)
	if !ok || kind != '*' || n != len(ids)+1 {
		if len(reply) > 0 && reply[0] == '-' {
			return nil, nil, fmt.Errorf("the server answers %s", bytes.TrimSpace(reply[1:]))
		}
		return nil, nil, fmt.Errorf("%w: %.40q", errReply, reply)
	}
	entries = make([]Entry, len(ids))
	for i := range n {
		kind, length, after, ok := replyHead(rest)
		rest = after
		var value []byte
		switch {
		case ok && (kind == '_' || kind == '$' && length < 0): // nothing is there
			continue
		case ok && kind == '$' && len(rest) >= length+2:
			value, rest = rest[:length], rest[length+2:]
		default:
			return nil, nil, fmt.Errorf("%w: value %d begins with %.40q", errReply, i, rest)
		}
		if i == len(ids) {
			return entries, value, nil
		}
		entries[i] = parseValue(ids[i], value)
	}
	return entries, nil, nil
}

func replyHead(reply []byte) (kind byte, n int, rest []byte, ok bool) {
	end := bytes.IndexByte(reply, '\n')
	if end < 2 {
		return 0, 0, nil, false
	}
	kind, rest = reply[0], reply[end+1:]
	digits := reply[1 : end-1]
	if len(digits) == 0 {
		return kind, 0, rest, kind == '_'
	}
	negative := digits[0] == '-'
	if negative {
		digits = digits[1:]
	}
	for _, c := range digits {
		if c < '0' || c > '9' || n > 1<<40 {
			return 0, 0, nil, false
		}
		n = 10*n + int(c-'0')
	}
	if negative {
		n = -n
	}
	return kind, n, rest, true
}
