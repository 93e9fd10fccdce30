package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// askOn asks over one connection, one request after the other, until ctx ends. It
// speaks HTTP by hand: what a client costs should not hide what the server costs.
func askOn(ctx context.Context, host string, done *atomic.Int64, next func() []byte) (spread, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", host)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil //nolint:nilerr // the time was over before it began
		}
		return nil, err
	}
	defer func() { _ = conn.Close() }() // nothing is on its way
	in := bufio.NewReaderSize(conn, 16<<10)
	times := make(spread, 0, 1<<16)
	for ctx.Err() == nil {
		begun := time.Now()
		if _, err := conn.Write(next()); err != nil {
			return times, err
		}
		if err := hearOnline(in, idsPerRead); err != nil {
			return times, err
		}
		times = append(times, time.Since(begun))
		done.Add(1)
	}
	return times, nil
}

var (
	statusOK      = []byte("HTTP/1.1 200 ")
	contentLength = []byte("Content-Length: ")
	saysOnline    = []byte(`:"online"`)
)

// hearOnline reads an answer that says of so many users that they are online, and
// of no other.
func hearOnline(in *bufio.Reader, users int) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, statusOK) {
		return fmt.Errorf("a batch read is answered %q", bytes.TrimSpace(line))
	}
	length := -1
	for len(bytes.TrimSpace(line)) > 0 {
		if line, err = in.ReadSlice('\n'); err != nil {
			return err
		}
		if value, ok := bytes.CutPrefix(line, contentLength); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	if length < 0 || length > in.Size() {
		return fmt.Errorf("the answer to a batch read has the length %d", length)
	}
	body, err := in.Peek(length)
	if err != nil {
		return err
	}
	if online := bytes.Count(body, saysOnline); online != users {
		return fmt.Errorf("of %d users %d are said to be online: %s", users, online, body)
	}
	_, err = in.Discard(length)
	return err
}

// processorTime is what a process has used, 0 where the system does not tell. The
// process is one of ours, or 0.
func processorTime(pid int) time.Duration {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	_, text, _ = bytes.Cut(text, []byte(") ")) // the name before it may have blanks
	fields := bytes.Fields(text)
	const user, system, tick = 11, 12, 10 * time.Millisecond
	if len(fields) <= system {
		return 0
	}
	var sum int64
	for _, i := range []int{user, system} {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0
		}
		sum += n
	}
	return time.Duration(sum) * tick
}
