package socket

import (
	"fmt"
	"time"

	"github.com/gobwas/ws"
)

// Frame encodes a text message, once for all connections that send it.
func Frame(message []byte) []byte {
	frame := make([]byte, 0, len(message)+10)
	return append(appendHeader(frame, ws.OpText, len(message)), message...)
}

// Offer sends as much of a Frame as is possible without blocking. If something is left, finish
// sends it and blocks as Write does. It must be called, from any goroutine, and nothing else is
// written before it returns. After an error the connection has ended.
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

// locked calls write while it holds writing.
func (c *Conn) locked(write func() error) error {
	c.writing <- struct{}{}
	defer func() { <-c.writing }()
	if c.broken != nil {
		return c.broken
	}
	return c.fail(write())
}

// fail ends the connection after an error: part of a frame may have been sent, and nothing can
// follow it. The caller holds writing.
func (c *Conn) fail(err error) error {
	if err == nil {
		return nil
	}
	c.broken = fmt.Errorf("writing to the client: %w", err)
	_ = c.conn.Close()
	return c.broken
}

// writeAll writes a frame. It sets a deadline, which costs a timer, only if the kernel's buffer is
// full. The caller holds writing.
func (c *Conn) writeAll(frame []byte) error {
	n, err := c.writeNow(frame)
	if err != nil || n == len(frame) {
		return err
	}
	return c.writeBlocking(frame[n:])
}

// writeBlocking waits for the client, up to the write timeout. The caller holds writing.
func (c *Conn) writeBlocking(rest []byte) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(c.options.WriteTimeout)); err != nil {
		return err
	}
	if _, err := c.conn.Write(rest); err != nil || c.raw == nil {
		return err
	}
	// After the deadline nothing could be written, even to an empty buffer.
	return c.conn.SetWriteDeadline(time.Time{})
}
