// Package watch watches users through GET /presence/stream, for tools and
// tests. It reconnects by itself and subscribes again.
package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/schemas"
)

// Kinds of messages. Disconnected is the client's own: the connection is gone, what
// was heard may be out of date, and it is trying again.
const (
	Hello        = "hello"
	Snapshot     = "snapshot"
	Change       = "change"
	Resync       = "resync"
	Collapsed    = "collapsed"
	Delivery     = "delivery"
	Error        = "error"
	Reconnect    = "reconnect"
	Disconnected = "disconnected"
)

// Message is one message of the stream. Which fields are set depends on Type.
type Message struct {
	Type  string             `json:"type"`
	Users []schemas.Presence `json:"users"` // snapshot, resync
	User  *schemas.Presence  `json:"user"`  // change, delivery
	Count int                `json:"count"` // collapsed
	// Problem says what the server could not do (error).
	Problem          *Problem `json:"error"`
	HeartbeatMillis  int64    `json:"heartbeat_interval_ms"` // hello
	MaxSubscriptions int      `json:"max_subscriptions"`     // hello
	AfterMillis      int64    `json:"after_ms"`              // reconnect: come back after this
	// Cause is why the connection ended, and RetryIn when the next try is
	// (disconnected).
	Cause   error         `json:"-"`
	RetryIn time.Duration `json:"-"`
}

// Problem is an error that the server reports.
type Problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field"`
	UserID  string `json:"user_id"` // not_allowed: whom
}

func (p *Problem) Error() string { return p.Code + ": " + p.Message }

// Options say what to watch and where.
type Options struct {
	URL    string           // ws://, wss://, http:// or https://…/presence/stream
	Users  []schemas.UserID // at most what the server's hello allows
	Header http.Header      // e.g. Authorization
	Client *http.Client     // nil: http.DefaultClient
}

const (
	firstPause   = 250 * time.Millisecond
	longestPause = 15 * time.Second
	// silentFor is how long a connection may give no sign of life: no message and no
	// answer to a ping.
	pingEvery = 20 * time.Second
	silentFor = 10 * time.Second
	// maxMessage fits a snapshot of 500 users several times over.
	maxMessage = 4 << 20
)

// Messages yields what the stream says until ctx ends, the loop is left, or the
// server refuses for good (an HTTP status of 4xx but 408 and 429): that is the
// error, which comes last. Everything else it gets over.
func Messages(ctx context.Context, o Options) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		pause := firstPause
		for ctx.Err() == nil {
			heard, after, err := session(ctx, o, yield)
			switch {
			case errors.Is(err, errLeft):
				return
			case ctx.Err() != nil:
				return
			case errors.As(err, new(*refused)):
				yield(Message{}, err)
				return
			case heard:
				pause = firstPause
			}
			wait := pause/2 + rand.N(pause/2)
			if after > 0 {
				wait = after
			}
			if !yield(Message{Type: Disconnected, Cause: err, RetryIn: wait}, nil) {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
			pause = min(2*pause, longestPause)
		}
	}
}

var errLeft = errors.New("the caller left the loop")

// refused is an answer that trying again will not change.
type refused struct{ status string }

func (e *refused) Error() string { return "the server refuses the stream: " + e.status }

// session is one connection. heard says that a snapshot came; after is when the
// server asked to come back, 0 if it did not.
func session(ctx context.Context, o Options, yield func(Message, error) bool) (heard bool, after time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	//nolint:bodyclose // Dial has read the body; it needs no closing, it says.
	conn, answer, err := websocket.Dial(ctx, o.URL, &websocket.DialOptions{HTTPClient: o.Client, HTTPHeader: o.Header})
	if err != nil {
		if answer != nil && answer.StatusCode >= 400 && answer.StatusCode < 500 &&
			answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode != http.StatusRequestTimeout {
			return false, 0, &refused{status: answer.Status}
		}
		return false, 0, fmt.Errorf("connecting to the stream: %w", err)
	}
	conn.SetReadLimit(maxMessage)
	pinging := make(chan struct{})
	go func() {
		defer close(pinging)
		ping(ctx, conn)
	}()
	defer func() {
		_ = conn.CloseNow()
		cancel()
		<-pinging
	}()
	if err := subscribe(ctx, conn, o.Users); err != nil {
		return false, 0, err
	}
	for {
		_, text, err := conn.Read(ctx)
		if err != nil {
			return heard, after, fmt.Errorf("reading the stream: %w", err)
		}
		var m Message
		if err := json.Unmarshal(text, &m); err != nil {
			return heard, after, fmt.Errorf("reading the message %.200q: %w", text, err)
		}
		switch m.Type {
		case Snapshot:
			heard = true
		case Reconnect:
			after = max(time.Duration(m.AfterMillis)*time.Millisecond, time.Millisecond)
		}
		if !yield(m, nil) {
			_ = conn.Close(websocket.StatusNormalClosure, "")
			return heard, after, errLeft
		}
		if m.Type == Error && m.Problem != nil && m.Problem.Code == "unavailable" {
			return heard, after, fmt.Errorf("subscribing: %w", m.Problem)
		}
	}
}

func subscribe(ctx context.Context, conn *websocket.Conn, users []schemas.UserID) error {
	ids := make([]string, len(users))
	for i, id := range users {
		ids[i] = id.String()
	}
	text, err := json.Marshal(map[string]any{"type": "subscribe", "user_ids": ids})
	if err != nil {
		return err
	}
	if err := conn.Write(ctx, websocket.MessageText, text); err != nil {
		return fmt.Errorf("subscribing: %w", err)
	}
	return nil
}

// ping breaks a connection whose other end has died without a word.
func ping(ctx context.Context, conn *websocket.Conn) {
	every := time.NewTicker(pingEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			wait, cancel := context.WithTimeout(ctx, silentFor)
			err := conn.Ping(wait)
			cancel()
			if err != nil {
				_ = conn.CloseNow()
				return
			}
		}
	}
}
