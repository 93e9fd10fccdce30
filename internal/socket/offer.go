package socket

import (
	"fmt"
	"time"

	"github.com/gobwas/ws"
)

// Frame is a text message in the form in which it goes out, made once for all
// connections that it is for.
func Frame(message []byte) []byte {
	frame := make([]byte, 0, len(message)+10)
	return append(appendHeader(frame, ws.OpText, len(message)), message...)
}

// Offer sends a Frame as far as that is possible without waiting. Where something
// is left to do, finish does it, and blocks as Write does; it must be called, by
// whichever goroutine, and nothing is written before it has ended. An error has ended
// the connection.
func (c *Conn) Offer(frame []byte) (finish func() error, err error) {
	select {
	case c.writing <- struct{}{}:
	default:
		return func() error { return c.locked(func() error { return c.writeAll(frame) }) }, nil
	}
	if c.broken != nil {
		<-c.writing
		return nil, c.broken
	}
	n, err := c.writeNow(frame)
	switch {
	case err != nil:
		err = c.fail(err)
	case n < len(frame):
		return func() error {
			defer func() { <-c.writing }()
			return c.fail(c.writeBlocking(frame[n:]))
		}, nil
	}
	<-c.writing
	return nil, err
}

// locked writes when it is this writer's turn.
func (c *Conn) locked(write func() error) error {
	c.writing <- struct{}{}
	defer func() { <-c.writing }()
	if c.broken != nil {
		return c.broken
	}
	return c.fail(write())
}

// fail ends the connection after an error: part of a frame may be out, and nothing
// can follow it. Holds writing.
func (c *Conn) fail(err error) error {
	if err == nil {
		return nil
	}
	c.broken = fmt.Errorf("writing to the client: %w", err)
	_ = c.conn.Close()
	return c.broken
}

// writeAll writes a frame. The deadline, which costs a timer, is for those only for whom
// the kernel has no room. Holds writing.
func (c *Conn) writeAll(frame []byte) error {
	n, err := c.writeNow(frame)
	if err != nil || n == len(frame) {
		return err
	}
	return c.writeBlocking(frame[n:])
}

// writeBlocking waits for the client, up to the write timeout. Holds writing.
func (c *Conn) writeBlocking(rest []byte) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(c.options.WriteTimeout)); err != nil {
		return err
	}
	if _, err := c.conn.Write(rest); err != nil || c.raw == nil {
		return err
	}
	// Once it has passed nothing could be written, also where there is room.
	return c.conn.SetWriteDeadline(time.Time{})
}
