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

// Options bound a connection. They are shared by all connections of a door.
type Options struct {
	// MaxMessage is how long a message may be, in bytes. A longer one is read away and
	// the handler is told; one longer than MaxDiscard closes the connection (1009).
	MaxMessage, MaxDiscard int
	// PingInterval is how often the client is pinged and Handler.Quiet is called.
	PingInterval time.Duration
	// WriteTimeout bounds writing one message, receiving one message or control frame
	// once it has begun, and waiting for a sign of life after a ping.
	WriteTimeout time.Duration
	// Rate is how many frames (messages, parts of them, pings, pongs) the client may
	// send a second, and Burst how many at once; a client that sends more is closed
	// (1008). 0: any number.
	Rate, Burst int
}

// The rate that every door of this module allows its clients.
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

// Status codes of a close that are used here (RFC 6455, 7.4.1).
const (
	Normal        = 1000
	GoingAway     = 1001
	ProtocolError = 1002
	NoStatus      = 1005 // never sent: the client closed without a code
	Policy        = 1008
	TooLarge      = 1009
	TryLater      = 1013
)

// Conn is the server's end of a WebSocket. Write, Close and Abort may be called
// from any goroutine; Serve from one, once.
type Conn struct {
	conn    net.Conn
	raw     syscall.RawConn // of conn; nil where it is not the kernel's
	options Options
	early   []byte // came with the handshake and was not read yet

	buffer     [64]byte // fits the frames of clients that only say that they are here
	start, end uint8    // of what is in buffer

	// writing is held, by putting something in, while a frame is written. It is no
	// mutex because that can take as long as the write timeout, also in virtual time.
	writing chan struct{}
	broken  error // why nothing can be written any more; guarded by writing
	// closing is until when the client may confirm a Close, Unix nanoseconds; 0: it
	// was not called.
	closing atomic.Int64
}

// frames are shared: a connection needs one only while it writes.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// keepFrame is the longest buffer that goes back to frames, in bytes.
const keepFrame = 64 << 10

// Write sends one text message. It blocks for at most the write timeout; an error
// has ended the connection.
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

// writeFrame holds writing.
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

// appendHeader appends the header of a frame that is a message by itself (RFC 6455,
// 5.2); what a server sends is not masked.
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

// Close tells the client why the connection ends and lets Serve wait for its
// answer. Only the first call sends anything. Reason has at most 123 bytes.
func (c *Conn) Close(status int, reason string) {
	until := time.Now().Add(CloseTimeout)
	if !c.closing.CompareAndSwap(0, until.UnixNano()) {
		return
	}
	if c.write(ws.OpClose, ws.NewCloseFrameBody(ws.StatusCode(status), reason)) != nil {
		return // broken, which Serve has noticed
	}
	_ = c.conn.SetReadDeadline(until) // fails only on a closed connection
}

// Closing tells whether Close was called: the client is being told why, and Serve ends within
// CloseTimeout.
func (c *Conn) Closing() bool { return c.closing.Load() != 0 }

// Abort breaks the connection without a word. Serve and Write end at once.
func (c *Conn) Abort() { _ = c.conn.Close() }
