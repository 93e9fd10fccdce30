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

// Handler is what a connection is for. Its methods are called one at a time, each
// after what the one before has done; nothing is read while one runs.
type Handler interface {
	// Message takes a message, text or binary, valid during the call.
	Message(message []byte)
	// TooLong says that a message was longer than MaxMessage and has been dropped.
	TooLong()
	// Ping says that the client has pinged. It is answered by Conn.
	Ping()
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
	// ErrSilent is the error of Serve when the client showed no sign of life.
	ErrSilent = errors.New("the client shows no sign of life")
	// ErrTooOften is the error of Serve when the client sent more than Options.Rate.
	ErrTooOften = errors.New("too many messages")
	// ErrUnfinished is the error of Serve when a message or frame that had begun was
	// not complete in time.
	ErrUnfinished = errors.New("a message was not complete in time")
	errLong       = errors.New("a message is too long")
)

// Serve hands what the client says to h until the connection ends, and tells why.
// The connection is closed when it returns.
func (c *Conn) Serve(h Handler) error {
	defer func() { _ = c.conn.Close() }()
	r := &reading{c: c, h: h, limit: c.options.limiter()}
	// A part of the interval first, so that connections that were opened together are
	// not pinged together.
	r.pingAt = time.Now().Add(c.options.PingInterval - rand.N(c.options.PingInterval/2+1))
	// What there is to do is done by other goroutines, so that the stack of this one,
	// which every connection has while it is idle, stays as small as it begins.
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

	doing sync.WaitGroup // one goroutine at a time, or none
	next  func(*reading) error
	err   error

	pingAt  time.Time
	answer  time.Time     // by when a sign of life is due; zero: none is
	message *[]byte       // of a message that comes in several frames; nil: none is open
	long    bool          // and it has become too long to be kept
	length  int           // of it so far
	by      time.Time     // when it must be complete
	limit   *rate.Limiter // of frames; nil: none
}

// messages are shared: a connection needs one only while a message comes in.
var messages = sync.Pool{New: func() any { return new([]byte) }}

// frame reads a frame, of which the first bytes are there, and does what it says.
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

// frameBy is frame within a deadline that is set.
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

// work does what is next, and what has come besides.
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

// rest sets until when the next frame is waited for.
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

// wait returns what there is to do, when there is something.
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

// quiet does what is due when nothing has come.
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
	case ws.OpClose:
		closed := &Closed{Status: NoStatus}
		if len(payload) >= 2 {
			status, reason := ws.ParseCloseFrameData(payload)
			closed.Status, closed.Reason = int(status), reason
			payload = payload[:2]
		}
		if r.c.closing.CompareAndSwap(0, time.Now().Add(CloseTimeout).UnixNano()) {
			_ = r.c.write(ws.OpClose, payload) // whether or not it gets through, this is the end
		}
		return closed
	}
	return nil
}

// data takes a frame of a message, which must be complete by then if it begins here.
func (r *reading) data(header ws.Header, by time.Time) error {
	o := &r.c.options
	if r.message == nil {
		r.by = by
		r.message, r.long, r.length = messages.Get().(*[]byte), false, 0
		*r.message = (*r.message)[:0]
	}
	// In this order, so that a length near the greatest number cannot overflow.
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

// ended makes the error of Serve, and tells a client that broke a rule which.
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

// linger reads away what the client still sends: closing a connection with
// something unread resets it, and the client would not be told why.
func (r *reading) linger() {
	if r.c.readUntil(time.Now().Add(CloseTimeout)) == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(r.c.conn, int64(r.c.options.MaxDiscard)))
	}
}
