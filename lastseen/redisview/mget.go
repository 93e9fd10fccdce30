package redisview

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/schemas"
)

// mget is an MGET of users and, last, of the rebuild tag. Its memory is used again.
//
// go-redis writes the reply to it piece by piece: each line, its end, and each value from a reader.
// What is left for each user are the 24 bytes of that reader, which go-redis allocates.
type mget struct {
	text      []byte
	keys      []string
	arguments []any

	got   values
	next  int // index of the value that comes
	begun bool
	err   error
	tag   []byte                                        // empty = none
	value [valueLength + maxTail + len("\r\n") + 1]byte // a value that fills it is too long
}

var mgets = sync.Pool{New: func() any { return new(mget) }}

// of is the command, which may be used once. It puts a value for each id.
func (m *mget) of(ctx context.Context, prefix, tagKey string, ids []schemas.UserID, got values) *redis.RawWriteToCmd {
	m.text = m.text[:0]
	for _, id := range ids {
		m.text = append(append(m.text, prefix...), '{')
		m.text = append(strconv.AppendInt(m.text, int64(id), 10), '}')
	}
	m.keys = slices.Grow(m.keys[:0], len(ids)+1)[:len(ids)+1]
	all := string(m.text)
	for i := range ids {
		end := strings.IndexByte(all[len(prefix):], '}') + len(prefix) + 1
		m.keys[i], all = all[:end], all[end:]
	}
	m.keys[len(ids)] = tagKey
	m.arguments = append(m.arguments[:0], "mget")
	for i := range m.keys {
		m.arguments = append(m.arguments, &m.keys[i])
	}
	m.got, m.next, m.begun, m.err, m.tag = got, 0, false, nil, m.tag[:0]
	return redis.NewRawWriteToCmd(ctx, m, m.arguments...)
}

// end returns the tag after the command, or an error if the reply was not that of an MGET of so many
// keys.
func (m *mget) end() ([]byte, error) {
	if m.err == nil && (!m.begun || m.next != len(m.keys)) {
		m.err = fmt.Errorf("%w: it has %d of %d values", errReply, m.next, len(m.keys))
	}
	return m.tag, m.err
}

var errReply = errors.New("the server's answer cannot be read")

// Write takes a line of the reply, in RESP2 or RESP3, or the end of one.
func (m *mget) Write(line []byte) (int, error) {
	if len(line) == 0 || line[0] == '\r' {
		return len(line), nil
	}
	switch n, ok := number(line[1:]); {
	case line[0] == '*' && ok && n == len(m.keys) && !m.begun:
		m.begun = true
	case line[0] == '_', string(line) == "$-1": // nothing is there
		m.take(nil)
	case line[0] == '-':
		m.fail(fmt.Errorf("the server answers %s", line[1:]))
	case line[0] != '$' || !ok: // after $ its value comes from a reader
		m.fail(fmt.Errorf("%w: value %d begins with %.40q", errReply, m.next, line))
	}
	return len(line), nil
}

// ReadFrom takes a value and the end of its line.
func (m *mget) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.ReadFull(r, m.value[:])
	if err == nil {
		m.take(m.value[:])
		rest, err := io.Copy(io.Discard, r)
		return int64(n) + rest, err
	}
	m.take(m.value[:max(n-len("\r\n"), 0)])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // go-redis knows whether all of it was there
	}
	return int64(n), err
}

func (m *mget) take(value []byte) {
	switch {
	case !m.begun || m.next >= len(m.keys):
		m.fail(fmt.Errorf("%w: there is a value too many", errReply))
		return
	case m.next < len(m.keys)-1:
		m.got.put(m.next, value)
	default:
		m.tag = append(m.tag, value...)
	}
	m.next++
}

// fail keeps the first error. The rest of the reply is read, so that the connection can be used on.
func (m *mget) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

func number(digits []byte) (n int, ok bool) {
	for _, c := range digits {
		if c < '0' || c > '9' || n > 1<<40 {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, len(digits) > 0
}
