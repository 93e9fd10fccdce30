package redisview

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	store "github.com/stillhere/stillhere/internal/redis"
	"github.com/stillhere/stillhere/schemas"
)

// directReads are connections of their own for the MGET of users, where Redis is one server. go-redis
// reads a reply value by value through two interfaces, which costs more than all the rest of a read.
type directReads struct {
	options     store.Options
	dialed      func()                // called before a new connection is used
	keyBegins   [maxDigits + 1]string // what goes before an id of so many digits in a command
	tagArgument string                // the rebuild tag in a command

	mu     sync.Mutex // protects what follows
	closed bool
	idle   []*direct
}

// direct is a connection to Redis with its buffers. One goroutine uses it at a time.
type direct struct {
	conn       net.Conn
	out, in    []byte
	start, end int // of the unread bytes in in
}

const (
	directBuffer = 64 << 10
	maxDigits    = 20 // of an id
	// maxValue bounds a value that no version of this program has written.
	maxValue = 1 << 20
)

func newDirectReads(options store.Options, tagKey string, dialed func()) *directReads {
	d := &directReads{options: options, dialed: dialed, tagArgument: fmt.Sprintf("$%d\r\n%s\r\n", len(tagKey), tagKey)}
	for digits := range d.keyBegins {
		d.keyBegins[digits] = fmt.Sprintf("$%d\r\n%s{", len(options.Prefix)+digits+len("{}"), options.Prefix)
	}
	return d
}

// mget puts a value for each id, and reports whether the rebuild tag is tag. It must have a
// deadline, after which the connection is given up.
func (d *directReads) mget(ctx context.Context, ids []schemas.UserID, got values, tag string) (same bool, err error) {
	c, used, err := d.connect(ctx, true)
	if err != nil {
		return false, err
	}
	same, err = c.mget(ctx, d, ids, got, tag)
	if err != nil && used && ctx.Err() == nil && !errors.Is(err, errReply) {
		// The server may have closed the connection while nobody used it.
		_ = c.conn.Close()
		if c, _, err = d.connect(ctx, false); err != nil {
			return false, err
		}
		same, err = c.mget(ctx, d, ids, got, tag)
	}
	d.release(c, err)
	return same, err
}

// connect returns an idle connection if there is one and old says so, else a new one.
func (d *directReads) connect(ctx context.Context, old bool) (c *direct, used bool, err error) {
	d.mu.Lock()
	last := len(d.idle) - 1
	if old && last >= 0 {
		c, d.idle = d.idle[last], d.idle[:last]
	}
	d.mu.Unlock()
	if c != nil {
		return c, true, nil
	}
	conn, err := d.options.Dial(ctx)
	if err != nil {
		return nil, false, err
	}
	d.dialed()
	return &direct{conn: conn, in: make([]byte, directBuffer)}, false, nil
}

// release keeps a connection for the next read, unless its last one failed.
func (d *directReads) release(c *direct, err error) {
	d.mu.Lock()
	keep := err == nil && !d.closed && len(d.idle) < maxReads && c.start == c.end && len(c.in) == directBuffer
	if keep {
		d.idle = append(d.idle, c)
	}
	d.mu.Unlock()
	if !keep {
		_ = c.conn.Close()
	}
}

// close closes the idle connections. Others are closed after their read.
func (d *directReads) close() {
	d.mu.Lock()
	idle := d.idle
	d.closed, d.idle = true, nil
	d.mu.Unlock()
	for _, c := range idle {
		_ = c.conn.Close()
	}
}

func (c *direct) mget(ctx context.Context, d *directReads, ids []schemas.UserID, got values, tag string) (same bool, err error) {
	until, _ := ctx.Deadline() // none: no deadline
	if err := c.conn.SetDeadline(until); err != nil {
		return false, err
	}
	c.out = d.appendMGET(c.out[:0], ids)
	if _, err := c.conn.Write(c.out); err != nil {
		return false, err
	}
	return c.reply(len(ids), got, tag)
}

// appendMGET appends the command that reads users and, last, the rebuild tag.
func (d *directReads) appendMGET(command []byte, ids []schemas.UserID) []byte {
	command = append(strconv.AppendInt(append(command, '*'), int64(len(ids)+2), 10), "\r\n$4\r\nmget\r\n"...)
	for _, id := range ids {
		var digits [maxDigits]byte
		text := strconv.AppendInt(digits[:0], int64(id), 10)
		command = append(append(append(command, d.keyBegins[len(text)]...), text...), "}\r\n"...)
	}
	return append(command, d.tagArgument...)
}

// reply reads the reply to an MGET of so many users: an array of bulk strings (RESP2).
func (c *direct) reply(users int, got values, tag string) (same bool, err error) {
	count, err := c.header('*')
	if err != nil {
		return false, err
	}
	if count != users+1 {
		return false, fmt.Errorf("%w: it has %d of %d values", errReply, count, users+1)
	}
	for i := range users {
		value, err := c.value()
		if err != nil {
			return false, err
		}
		got.put(i, value)
	}
	value, err := c.value()
	return len(value) > 0 && string(value) == tag, err
}

// usual is how a stored user begins.
var usual = fmt.Appendf(nil, "$%d\r\n", valueLength)

// value returns the next bulk string, nil for none. It is valid until the next call.
func (c *direct) value() ([]byte, error) {
	length := valueLength
	if in := c.in[c.start:c.end]; len(in) >= len(usual) && string(in[:len(usual)]) == string(usual) {
		c.start += len(usual)
	} else {
		var err error
		if length, err = c.header('$'); err != nil || length < 0 {
			return nil, err
		}
	}
	whole := length + len("\r\n")
	for c.end-c.start < whole {
		if err := c.fill(whole); err != nil {
			return nil, err
		}
	}
	value := c.in[c.start : c.start+whole]
	if value[length] != '\r' || value[length+1] != '\n' {
		return nil, fmt.Errorf("%w: a value is longer than its length", errReply)
	}
	c.start += whole
	return value[:length], nil
}

// header reads a line that is kind and a number, at most maxValue. It is -1 for none.
func (c *direct) header(kind byte) (int, error) {
	const longest = 512
	for searched := 0; ; {
		if end := bytes.IndexByte(c.in[c.start+searched:c.end], '\n'); end >= 0 {
			line, ok := bytes.CutSuffix(c.in[c.start:c.start+searched+end], []byte("\r"))
			if !ok {
				return 0, fmt.Errorf("%w: a line does not end with CR LF", errReply)
			}
			c.start += searched + end + 1
			return headerOf(line, kind)
		}
		if searched = c.end - c.start; searched > longest {
			return 0, fmt.Errorf("%w: a line is too long", errReply)
		}
		if err := c.fill(longest); err != nil {
			return 0, err
		}
	}
}

func headerOf(line []byte, kind byte) (int, error) {
	switch {
	case len(line) > 0 && line[0] == '-':
		return 0, fmt.Errorf("%w: %.100q", errReply, line[1:])
	case kind == '$' && string(line) == "$-1":
		return -1, nil
	case len(line) > 0 && line[0] == kind:
		if n, ok := number(line[1:]); ok && n <= maxValue {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%w: %.40q is not %c and a length", errReply, line, kind)
}

// fill reads what has arrived. There is space for whole bytes after it.
func (c *direct) fill(whole int) error {
	if c.start > 0 {
		c.end = copy(c.in, c.in[c.start:c.end])
		c.start = 0
	}
	if whole >= len(c.in) { // such a connection is not kept
		larger := make([]byte, 2*whole)
		copy(larger, c.in[:c.end])
		c.in = larger
	}
	n, err := c.conn.Read(c.in[c.end:])
	c.end += n
	if n > 0 {
		return nil
	}
	return err
}

// readDirect is readTogether on a connection of directReads.
func (v *View) readDirect(ctx context.Context, ids []schemas.UserID, got values) (*progressSnapshot, bool, error) {
	known := v.recentProgress()
	if known == nil {
		var err error
		if known, err = v.freshProgress(ctx); err != nil {
			return nil, false, err
		}
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, sharedTimeout)
		defer cancel()
	}
	same, err := v.direct.mget(ctx, ids, got, known.tag)
	return known, same, err
}
