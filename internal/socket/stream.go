package socket

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"time"
)

// TakeOver answers 200 with w's headers and takes the connection over; what is sent on
// it then is the body, which ends when the connection does. It is for streams that
// only go one way, such as Server-Sent Events. The caller must have it end in Watch or
// Abort. The error is errors.ErrUnsupported, and nothing has happened, where a
// connection is not one request's alone (HTTP/2); after any other error it is closed.
func TakeOver(w http.ResponseWriter, o Options) (*Conn, error) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	c, err := newConn(conn, o)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	header := w.Header().Clone()
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	header.Set("Connection", "close")
	var head bytes.Buffer
	head.WriteString("HTTP/1.1 200 OK\r\n")
	_ = header.Write(&head) // a buffer takes everything
	head.WriteString("\r\n")
	return c, c.Send(head.Bytes())
}

// Send writes bytes as they are, on a connection of TakeOver. It blocks for at most the
// write timeout; an error has ended the connection. Any goroutine may call it.
func (c *Conn) Send(what []byte) error {
	return c.locked(func() error { return c.writeAll(what) })
}

// Watch returns when the client of a connection of TakeOver has gone or the connection
// was ended; it is closed then. What the client says is read away, and a client that
// says more than Options.Rate allows is cut off. quiet is called
// every PingInterval from the same goroutine, and has to send something: nothing else
// finds out that a client has gone without a word.
func (c *Conn) Watch(quiet func()) {
	defer func() { _ = c.conn.Close() }()
	// A part of the interval first; see Serve.
	due := time.Now().Add(c.options.PingInterval - rand.N(c.options.PingInterval/2+1))
	limit := c.options.limiter()
	for {
		if c.conn.SetReadDeadline(due) != nil {
			return
		}
		err := c.fill()
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		now := time.Now()
		if err == nil && limit != nil && !limit.AllowN(now, 1) {
			return
		}
		if !now.Before(due) {
			quiet()
			due = now.Add(c.options.PingInterval)
		}
	}
}
