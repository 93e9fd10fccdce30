package socket

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/gobwas/ws"
	"golang.org/x/time/rate"
)

// Handler handles what the client sends. Its methods are called one at a time; nothing is read
// while one runs.
type Handler interface {
	// Message takes a message, text or binary, valid during the call.
	Message(message []byte)
	// TooLong is called for a discarded message that was longer than MaxMessage.
	TooLong()
	// Ping is called for a ping of the client, which Conn answers.
	Ping()
	// Pong is called for an answer to a ping.
	Pong()
	// Quiet is called every PingInterval, before the client is pinged. It may call
	// Close.
	Quiet()
}

// Closed is the error of Serve when the client closed, or confirmed a Close.
type Closed struct {
	Status int // NoStatus when none was given
	Reason string
}

func (e *Closed) Error() string { return fmt.Sprintf("closed with %d %q", e.Status, e.Reason) }

var (
	// ErrSilent is the error of Serve if the client did not answer a ping.
	ErrSilent = errors.New("the client shows no sign of life")
	// ErrTooOften is the error of Serve if the client sent more than Options.Rate.
	ErrTooOften = errors.New("too many messages")
	// ErrUnfinished is the error of Serve if a message or frame was not complete in time.
	ErrUnfinished = errors.New("a message was not complete in time")
	errLong       = errors.New("a message is too long")
)

// Serve passes what the client sends to h until the connection ends, and returns why it ended. It
// closes the connection.
func (c *Conn) Serve(h Handler) error {
	defer func() { _ = c.conn.Close() }()
	r := &reading{c: c, h: h, limit: c.options.limiter()}
	// The first interval is shorter at random, so that connections that were opened together are
	// not pinged together.
	r.pingAt = time.Now().Add(c.options.PingInterval - rand.N(c.options.PingInterval/2+1))
	// Other goroutines handle messages, so that the stack of this one, which remains while the
	// connection is idle, does not grow.
	r.next = (*reading).rest
	for r.err == nil {
		r.doing.Add(1)
		go r.work()
		if r.doing.Wait(); r.err == nil {
			r.next, r.err = r.wait()
		}
	}
	return r.ended(r.err)
}

// reading is the state of Serve.
type reading struct {
	c *Conn
	h Handler

	doing sync.WaitGroup // at most one goroutine at a time
	next  func(*reading) error
	err   error

	pingAt  time.Time
	answer  time.Time     // by when any frame must arrive; zero: no ping is unanswered
	message *[]byte       // the message being assembled; nil: none
	long    bool          // it is longer than MaxMessage and is discarded
	length  int           // its length so far
	by      time.Time     // when it must be complete
	limit   *rate.Limiter // of frames; nil: none
}

// messages are shared buffers: a connection needs one only while a message comes in.
var messages = sync.Pool{New: func() any { return new([]byte) }}

// frame reads and handles a frame whose first bytes have arrived.
func (r *reading) frame() error {
	c, now := r.c, time.Now()
	by := now.Add(c.options.WriteTimeout)
	if r.message != nil && r.by.Before(by) {
		by = r.by
	}
	if err := c.readUntil(by); err != nil {
		return err
	}
	if r.limit != nil && !r.limit.AllowN(now, 1) {
		return ErrTooOften
	}
	err := r.frameBy(by)
	if errors.Is(err, os.ErrDeadlineExceeded) && c.closing.Load() == 0 {
		return ErrUnfinished
	}
	return err
}

// frameBy is frame within the deadline by, which is set.
func (r *reading) frameBy(by time.Time) error {
	header, err := ws.ReadHeader(r.c)
	if err != nil {
		return err
	}
	state := ws.StateServerSide
	if r.message != nil {
		state = state.Set(ws.StateFragmented)
	}
	if err := ws.CheckHeader(header, state); err != nil {
		return err
	}
	r.answer = time.Time{}
	if header.OpCode.IsControl() {
		return r.control(header)
	}
	return r.data(header, by)
}

// work calls next, and then handles the frames that have arrived.
func (r *reading) work() {
	defer r.doing.Done()
	r.err = r.next(r)
	for r.err == nil && r.c.buffered() {
		r.err = r.frame()
	}
	if r.err == nil {
		r.err = r.rest()
	}
}

// rest sets the deadline of the next wait.
func (r *reading) rest() error {
	until := r.pingAt
	if !r.answer.IsZero() && r.answer.Before(until) {
		until = r.answer
	}
	if r.message != nil && r.by.Before(until) {
		until = r.by
	}
	return r.c.readUntil(until)
}

// wait waits for bytes or the deadline, and returns what has to be done.
func (r *reading) wait() (do func(*reading) error, err error) {
	err = r.c.fill()
	switch {
	case err == nil:
		return (*reading).frame, nil
	case errors.Is(err, os.ErrDeadlineExceeded) && r.c.closing.Load() == 0:
		return (*reading).quiet, nil
	}
	return nil, err
}

// quiet handles the deadline of a wait.
func (r *reading) quiet() error {
	now := time.Now()
	if !r.answer.IsZero() && !now.Before(r.answer) {
		return ErrSilent
	}
	if r.message != nil && !now.Before(r.by) {
		return ErrUnfinished
	}
	if now.Before(r.pingAt) {
		return nil
	}
	r.pingAt = now.Add(r.c.options.PingInterval)
	if r.h.Quiet(); r.c.closing.Load() != 0 {
		return nil
	}
	if r.answer.IsZero() {
		r.answer = now.Add(r.c.options.WriteTimeout)
	}
	return r.c.write(ws.OpPing, nil)
}

// control takes a ping, pong or close; its payload has at most 125 bytes.
func (r *reading) control(header ws.Header) error {
	var space [125]byte
	payload := space[:header.Length]
	if _, err := io.ReadFull(r.c, payload); err != nil {
		return err
	}
	ws.Cipher(payload, header.Mask, 0)
	switch header.OpCode {
	case ws.OpPing:
		if r.h.Ping(); r.c.closing.Load() != 0 {
			return nil
		}
		return r.c.write(ws.OpPong, payload)
	case ws.OpPong:
		r.h.Pong()
	case ws.OpClose:
		closed := &Closed{Status: NoStatus}
		if len(payload) >= 2 {
			status, reason := ws.ParseCloseFrameData(payload)
			closed.Status, closed.Reason = int(status), reason
			payload = payload[:2]
		}
		if r.c.closing.CompareAndSwap(0, time.Now().Add(CloseTimeout).UnixNano()) {
			_ = r.c.write(ws.OpClose, payload) // the connection ends even if this fails
		}
		return closed
	}
	return nil
}

// data takes a frame of a message. A message that begins with it must be complete by then.
func (r *reading) data(header ws.Header, by time.Time) error {
	o := &r.c.options
	if r.message == nil {
		r.by = by
		r.message, r.long, r.length = messages.Get().(*[]byte), false, 0
		*r.message = (*r.message)[:0]
	}
	// In this order, so that the sum cannot overflow.
	if header.Length > int64(o.MaxDiscard) || r.length+int(header.Length) > o.MaxDiscard {
		return errLong
	}
	r.length += int(header.Length)
	r.long = r.long || r.length > o.MaxMessage
	if r.long {
		if _, err := io.CopyN(io.Discard, r.c, header.Length); err != nil {
			return err
		}
	} else if err := r.append(header); err != nil {
		return err
	}
	if !header.Fin {
		return nil
	}
	if r.long {
		r.h.TooLong()
	} else {
		r.h.Message(*r.message)
	}
	r.release()
	return nil
}

func (r *reading) append(header ws.Header) error {
	begun := len(*r.message)
	*r.message = append(*r.message, make([]byte, int(header.Length))...)
	part := (*r.message)[begun:]
	if _, err := io.ReadFull(r.c, part); err != nil {
		return err
	}
	ws.Cipher(part, header.Mask, 0)
	return nil
}

func (r *reading) release() {
	if cap(*r.message) <= keepFrame {
		messages.Put(r.message)
	}
	r.message = nil
}

// ended closes a client that broke a rule, with the reason, and returns the error of Serve.
func (r *reading) ended(err error) error {
	var broke ws.ProtocolError
	switch {
	case errors.Is(err, errLong):
		r.c.Close(TooLarge, "the message is too long")
		r.linger()
	case errors.Is(err, ErrTooOften):
		r.c.Close(Policy, fmt.Sprintf("more than %d messages a second", r.c.options.Rate))
		r.linger()
	case errors.Is(err, ErrUnfinished):
		r.c.Close(Policy, "a message was not complete after "+r.c.options.WriteTimeout.String())
		r.linger()
	case errors.As(err, &broke):
		r.c.Close(ProtocolError, string(broke))
		r.linger()
	}
	if r.message != nil {
		r.release()
	}
	return err
}

// linger discards what the client still sends: closing a connection with unread bytes resets it,
// and the client would not receive the reason.
func (r *reading) linger() {
	if r.c.readUntil(time.Now().Add(CloseTimeout)) == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(r.c.conn, int64(r.c.options.MaxDiscard)))
	}
}
