package socket

import "time"

// readUntil sets the read deadline, unless the connection is closing, which has its own deadline.
func (c *Conn) readUntil(deadline time.Time) error {
	if err := c.conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	// Close stores closing before it sets its deadline, so the later of the two calls sets that of
	// the close.
	if closing := c.closing.Load(); closing != 0 {
		return c.conn.SetReadDeadline(time.Unix(0, closing))
	}
	return nil
}

// buffered reports whether there are unread bytes.
func (c *Conn) buffered() bool { return len(c.early) > 0 || c.start < c.end }

// fill reads into the buffer, which is empty.
func (c *Conn) fill() error {
	n, err := c.conn.Read(c.buffer[:])
	c.start, c.end = 0, uint8(n)
	if n > 0 {
		return nil
	}
	return err
}

// Read makes a Conn the io.Reader from which Serve reads frames. Do not call it.
func (c *Conn) Read(to []byte) (int, error) {
	switch {
	case len(c.early) > 0:
		n := copy(to, c.early)
		if c.early = c.early[n:]; len(c.early) == 0 {
			c.early = nil
		}
		return n, nil
	case c.start < c.end:
		n := copy(to, c.buffer[c.start:c.end])
		c.start += uint8(n)
		return n, nil
	case len(to) >= len(c.buffer):
		return c.conn.Read(to)
	}
	if err := c.fill(); err != nil {
		return 0, err
	}
	return c.Read(to)
}
