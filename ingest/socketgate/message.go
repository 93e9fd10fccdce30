package socketgate

import (
	"strconv"
	"time"

	"github.com/stillhere/stillhere/internal/strictjson"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// maxDiscard is the longest message that is discarded with an error message rather than ending the
// socket.
const maxDiscard = 4 << 20 // bytes

// Message takes one message; see socket.Handler.
func (s *connection) Message(message []byte) {
	s.at.Hear()
	if err := s.handleMessage(message); err != nil {
		s.reply(err)
	}
}

func (s *connection) TooLong() {
	s.at.Hear()
	s.reply(&schemas.FieldError{Code: web.TooLarge, Field: "message",
		Reason: "must have at most " + strconv.Itoa(s.gate.pace.Load().maxMessage) + " bytes"})
}

// handleMessage does what a message says. Every error is a *schemas.FieldError.
func (s *connection) handleMessage(message []byte) error {
	if len(message) <= 1 {
		s.Ping() // no JSON message is that short, so a byte of any value can be a beat
		return nil
	}
	kind, err := typeOf(message)
	if err != nil {
		return err
	}
	switch kind {
	case "activity":
		idle, err := decodeActivity(message)
		if err != nil {
			return err
		}
		s.touched.Store(int64(s.gate.now() - idle))
		s.Ping()
	case "bye":
		if err := decodeBye(message); err != nil {
			return err
		}
		_ = s.at.Leave() // refused only when this process stops, which writes a draining frame
	case "token":
		if err := s.term.Renew(message); err != nil {
			return err
		}
		s.sendTerm()
	default:
		if !s.streamHandle(message) {
			return &schemas.FieldError{Code: "unknown_type", Field: "type", Reason: "is not known: " +
				strconv.Quote(kind)}
		}
	}
	return nil
}

func typeOf(message []byte) (kind string, err error) {
	r := strictjson.NewReader("message", message)
	err = r.Document(func(key []byte) (err error) {
		if string(key) != "type" {
			return r.Skip()
		}
		if kind != "" {
			return strictjson.Twice(key)
		}
		kind, err = r.Text("type")
		return err
	})
	if err == nil && kind == "" {
		err = schemas.Invalid("type", "must be set")
	}
	return kind, err
}

func decodeActivity(message []byte) (idle time.Duration, err error) {
	given := false
	r := strictjson.NewReader("message", message)
	err = r.Document(func(key []byte) error {
		switch string(key) {
		case "type":
			return r.Skip()
		case "idle_ms":
			if given {
				return strictjson.Twice(key)
			}
			given = true
			ms, err := r.Int("idle_ms", int64(schemas.MaxIdle))
			idle = time.Duration(ms) * time.Millisecond
			return err
		}
		return strictjson.Unknown(key)
	})
	if err == nil && !given {
		err = schemas.Invalid("idle_ms", "must be set")
	}
	return idle, err
}

func decodeBye(message []byte) error {
	r := strictjson.NewReader("message", message)
	return r.Document(func(key []byte) error {
		if string(key) != "type" {
			return strictjson.Unknown(key)
		}
		return r.Skip()
	})
}
