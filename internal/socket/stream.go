package socket

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"time"
)

// TakeOver answers 200 with w's headers and takes the connection over. What is then sent on it is
// the body, which ends with the connection. It is for streams to the client, such as Server-Sent
// Events. The caller must end it by Watch or Abort. If several requests share the connection
// (HTTP/2), the error is errors.ErrUnsupported, and nothing has happened; after any other error the
// connection is closed.
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

// Send writes bytes to a connection of TakeOver. It blocks for at most the write timeout. After an
// error the connection has ended. Any goroutine may call it.
func (c *Conn) Send(what []byte) error {
	return c.locked(func() error { return c.writeAll(what) })
}

// Watch returns when a connection of TakeOver has ended, and closes it. Bytes from the client are
// discarded, and a client that sends more than Options.Rate allows is disconnected. quiet is called
// every PingInterval from the same goroutine. It has to send something: only a write finds a lost
// client.
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
