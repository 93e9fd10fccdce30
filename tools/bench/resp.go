package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// resp is a connection to Redis that speaks as much of its protocol (RESP2) as the
// reference needs, with as little in the way as possible. One goroutine may write
// while another reads.
type resp struct {
	conn net.Conn
	in   *bufio.Reader
	out  *bufio.Writer
}

func dialRedis(ctx context.Context, addr string) (*resp, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connecting to the Redis of --redis: %w", err)
	}
	return &resp{conn: conn, in: bufio.NewReaderSize(conn, 1<<16), out: bufio.NewWriterSize(conn, 1<<16)}, nil
}

func (r *resp) close() { _ = r.conn.Close() }

// send writes a command into the buffer. Errors of the connection come back when
// the answer is read.
func (r *resp) send(args ...string) {
	fmt.Fprintf(r.out, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(r.out, "$%d\r\n%s\r\n", len(a), a)
	}
}

// ask sends one command and reads its answer.
func (r *resp) ask(args ...string) (any, error) {
	r.send(args...)
	if err := r.out.Flush(); err != nil {
		return nil, fmt.Errorf("asking Redis for %s: %w", args[0], err)
	}
	answer, err := r.read()
	if err != nil {
		return nil, fmt.Errorf("asking Redis for %s: %w", args[0], err)
	}
	return answer, nil
}

// read reads an answer: a string, an int64, a []any, or nil. An answer that is an
// error is returned as one.
func (r *resp) read() (any, error) {
	line, err := r.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, errors.New("what answers is no Redis")
	}
	kind, text := line[0], string(line[1:len(line)-2])
	switch kind {
	case '+':
		return text, nil
	case '-':
		return nil, errors.New(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, errors.New("what answers is no Redis")
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		body := make([]byte, n+2)
		_, err := io.ReadFull(r.in, body)
		return string(body[:n]), err
	case kind == '*':
		all := make([]any, n)
		for i := range all {
			if all[i], err = r.read(); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return nil, errors.New("what answers is no Redis")
}
