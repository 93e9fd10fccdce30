package socket

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gobwas/ws"
	"golang.org/x/time/rate"
)

// Options bound a connection.
type Options struct {
	// MaxMessage bounds a message, in bytes. A longer one is discarded and reported to
	// Handler.TooLong; one longer than MaxDiscard closes the connection (1009).
	MaxMessage, MaxDiscard int
	// PingInterval is how often the client is pinged and Handler.Quiet is called.
	PingInterval time.Duration
	// WriteTimeout bounds writing one message, receiving one message or control frame after its
	// first byte, and waiting for any frame after a ping.
	WriteTimeout time.Duration
	// Rate is how many frames (messages, parts of them, pings, pongs) the client may send a second,
	// and Burst how many at once; a client that sends more is closed (1008). 0: any number.
	Rate, Burst int
}

// The rate that the services of this module allow.
const (
	DefaultRate  = 50
	DefaultBurst = 200
)

// limiter bounds the frames of one client; nil: any number.
func (o *Options) limiter() *rate.Limiter {
	if o.Rate <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(o.Rate), max(o.Burst, 1))
}

// CloseTimeout is how long the client has to confirm a Close.
const CloseTimeout = 5 * time.Second

// Status codes of a close (RFC 6455, 7.4.1).
const (
	Normal        = 1000
	GoingAway     = 1001
	ProtocolError = 1002
	NoStatus      = 1005 // never sent: the client closed without a code
	Policy        = 1008
	TooLarge      = 1009
	TryLater      = 1013
)

// Conn is the server's end of a WebSocket. Any goroutine may call Write, Close and Abort; call
// Serve once.
type Conn struct {
	conn    net.Conn
	raw     syscall.RawConn // of conn; nil if it is not the kernel's
	options Options
	early   []byte // unread bytes that came with the handshake

	buffer     [64]byte // enough for the frames of a client that only beats
	start, end uint8    // of the unread bytes in buffer

	// writing holds a value while a frame is written. It is no mutex, because a write may block for
	// the write timeout, also in virtual time.
	writing chan struct{}
	broken  error // why nothing can be written any more; guarded by writing
	// closing is until when the client may confirm a Close, Unix nanoseconds; 0: Close was not
	// called.
	closing atomic.Int64
}

// frames are shared buffers: a connection needs one only while it writes.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// keepFrame is the longest buffer that is reused, in bytes.
const keepFrame = 64 << 10

// Write sends one text message. It blocks for at most the write timeout. After an error the
// connection has ended.
func (c *Conn) Write(message []byte) error { return c.write(ws.OpText, message) }

func (c *Conn) write(op ws.OpCode, payload []byte) error {
	return c.locked(func() error {
		err := c.writeFrame(op, payload)
		if err == nil && op == ws.OpClose {
			c.broken = net.ErrClosed
		}
		return err
	})
}

// writeFrame writes one frame. The caller holds writing.
func (c *Conn) writeFrame(op ws.OpCode, payload []byte) error {
	frame := frames.Get().(*[]byte)
	defer func() {
		if cap(*frame) <= keepFrame {
			frames.Put(frame)
		}
	}()
	*frame = append(appendHeader((*frame)[:0], op, len(payload)), payload...)
	return c.writeAll(*frame)
}

// appendHeader appends the header of a frame that is a complete message (RFC 6455, 5.2). Frames of
// a server are not masked.
func appendHeader(to []byte, op ws.OpCode, length int) []byte {
	to = append(to, 0x80|byte(op))
	switch {
	case length < 126:
		return append(to, byte(length))
	case length < 1<<16:
		return append(to, 126, byte(length>>8), byte(length))
	}
	to = append(to, 127)
	for shift := 56; shift >= 0; shift -= 8 {
		to = append(to, byte(length>>shift))
	}
	return to
}

// Close sends the reason of the close to the client, and makes Serve wait for its confirmation.
// Only the first call sends anything. reason has at most 123 bytes.
func (c *Conn) Close(status int, reason string) {
	until := time.Now().Add(CloseTimeout)
	if !c.closing.CompareAndSwap(0, until.UnixNano()) {
		return
	}
	if c.write(ws.OpClose, ws.NewCloseFrameBody(ws.StatusCode(status), reason)) != nil {
		return // the connection has ended, and so does Serve
	}
	_ = c.conn.SetReadDeadline(until) // fails only on a closed connection
}

// Closing reports whether Close was called: Serve ends within CloseTimeout.
func (c *Conn) Closing() bool { return c.closing.Load() != 0 }

// Abort breaks the connection without a close frame. Serve and Write end at once.
func (c *Conn) Abort() { _ = c.conn.Close() }
