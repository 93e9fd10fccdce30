// Package watch reads GET /presence/stream: it reconnects and subscribes again by itself. Tools,
// tests and the public package client/watch use it.
package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/schemas"
)

// Kinds of messages. Disconnected is the client's own: the connection is lost, earlier messages may
// be out of date, and the client reconnects.
const (
	Hello        = "hello"
	Snapshot     = "snapshot"
	Change       = "change"
	Resync       = "resync"
	Resumed      = "resumed"
	Collapsed    = "collapsed"
	Delivery     = "delivery"
	Error        = "error"
	Reconnect    = "reconnect"
	Disconnected = "disconnected"
)

// Message is one message of the stream. Which fields are set depends on Type.
type Message struct {
	Type  string         `json:"type"`
	Users []schemas.User `json:"users"` // snapshot, resync
	User  *schemas.User  `json:"user"`  // change, delivery
	Count int            `json:"count"` // collapsed
	// Problem is what the server could not do (error).
	Problem          *Problem `json:"error"`
	HeartbeatMillis  int64    `json:"heartbeat_interval_ms"` // hello
	JitterMillis     int64    `json:"heartbeat_jitter_ms"`   // hello
	MaxSubscriptions int      `json:"max_subscriptions"`     // hello
	AfterMillis      int64    `json:"after_ms"`              // reconnect: come back after this
	Missed           int      `json:"missed"`                // resumed: how many changes came before
	// Cursor names how far the users were followed with this message.
	Cursor string `json:"cursor"`
	// Cause is why the connection ended, RetryIn the time to the next attempt (disconnected).
	Cause   error         `json:"-"`
	RetryIn time.Duration `json:"-"`
}

// Schedule is when a device sends heartbeats (hello).
func (m Message) Schedule() schemas.Schedule {
	return schemas.Schedule{Interval: time.Duration(m.HeartbeatMillis) * time.Millisecond,
		Jitter: time.Duration(m.JitterMillis) * time.Millisecond}
}

// Problem is an error that the server reports.
type Problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field"`
	UserID  string `json:"user_id"` // not_allowed: the user
}

func (p *Problem) Error() string { return p.Code + ": " + p.Message }

// Options are the server and the users to watch.
type Options struct {
	URL    string       // ws://, wss://, http:// or https://…/presence/stream
	Tenant string       // of the users; "": that of the token, or the default one
	Users  []string     // by name, with --ids int in decimal; at most what the server's hello allows
	Header http.Header  // e.g. Authorization
	Client *http.Client // nil: http.DefaultClient

	// Current, if set, replaces Users. It is called at the start of a connection and after each signal of Changed.
	Current func() []string
	Changed <-chan struct{}
	// Deliveries requests the deliveries to the viewer of the token.
	Deliveries bool
	// Resume requests exactly what was missed after a lost connection, in place of a snapshot. Where the
	// server cannot list it, a resync comes.
	Resume bool
	// Authorize, if set, returns the header of each connection in place of Header.
	Authorize func(ctx context.Context) (http.Header, error)
	// FirstWait [250ms] is the pause after the first failure, which doubles up to MaxWait [15s].
	// Each pause is random between half of that and all of it.
	FirstWait, MaxWait time.Duration
}

const (
	firstPause   = 250 * time.Millisecond
	longestPause = 15 * time.Second
	// A connection is pinged every pingEvery, jittered as heartbeats are, and closed if no answer
	// comes within pongTimeout.
	pingEvery   = 20 * time.Second
	pongTimeout = 10 * time.Second
	// maxMessage fits a snapshot of 500 users several times over.
	maxMessage = 4 << 20
)

// Messages yields the messages of the stream until ctx ends, the caller leaves the loop, or the
// server refuses the stream (an HTTP status of 4xx except 408 and 429), which is the error and
// comes last. After every other fault it reconnects.
func Messages(ctx context.Context, o Options) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		o = o.withDefaults()
		var at string // the cursor from which the next connection resumes; "": none
		pause := o.FirstWait
		for ctx.Err() == nil {
			heard, after, err := session(ctx, o, &at, yield)
			switch {
			case errors.Is(err, errLeft):
				return
			case ctx.Err() != nil:
				return
			case errors.As(err, new(*Refused)):
				yield(Message{}, err)
				return
			case heard:
				pause = o.FirstWait
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
			pause = min(2*pause, o.MaxWait)
		}
	}
}

var errLeft = errors.New("the caller left the loop")

func (o Options) withDefaults() Options {
	if o.FirstWait == 0 {
		o.FirstWait = firstPause
	}
	if o.MaxWait == 0 {
		o.MaxWait = longestPause
	}
	if o.Tenant != "" {
		o.URL += "?tenant=" + url.QueryEscape(o.Tenant)
	}
	if o.Current == nil {
		o.Current = func() []string { return o.Users }
	}
	if o.Authorize == nil {
		o.Authorize = func(context.Context) (http.Header, error) { return o.Header, nil }
	}
	return o
}

// Refused is an answer that a retry will not change.
type Refused struct {
	Status int
	Header http.Header
	Body   []byte // up to 1 kB of it
}

func (e *Refused) Error() string {
	return fmt.Sprintf("the server refuses the stream: %d %s", e.Status, http.StatusText(e.Status))
}

// session is one connection. heard means that a snapshot came; after is the delay that the server
// asked for, 0 if it did not.
func session(ctx context.Context, o Options, at *string, yield func(Message, error) bool) (heard bool, after time.Duration,
	err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	header, err := o.Authorize(ctx)
	if err != nil {
		return false, 0, err
	}
	//nolint:bodyclose // Dial has read the body, and documents that it needs no Close.
	conn, answer, err := websocket.Dial(ctx, o.URL, &websocket.DialOptions{HTTPClient: o.Client, HTTPHeader: header})
	if err != nil {
		if answer != nil && answer.StatusCode >= 400 && answer.StatusCode < 500 &&
			answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode != http.StatusRequestTimeout {
			body, _ := io.ReadAll(answer.Body)
			return false, 0, &Refused{answer.StatusCode, answer.Header, body}
		}
		return false, 0, fmt.Errorf("connecting to the stream: %w", err)
	}
	conn.SetReadLimit(maxMessage)
	users := o.Current()
	if err := begin(ctx, conn, o, at, users); err != nil {
		_ = conn.CloseNow()
		return false, 0, err
	}
	var work sync.WaitGroup
	work.Go(func() { ping(ctx, conn) })
	work.Go(func() { follow(ctx, conn, o, users) })
	defer func() {
		_ = conn.CloseNow()
		cancel()
		work.Wait()
	}()
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
		case Snapshot, Resumed, Resync:
			heard = true
		case Reconnect:
			after = max(time.Duration(m.AfterMillis)*time.Millisecond, time.Millisecond)
		}
		if !yield(m, nil) {
			_ = conn.Close(websocket.StatusNormalClosure, "")
			return heard, after, errLeft
		}
		if m.Cursor != "" {
			*at = m.Cursor
		}
		if m.Type == Error && m.Problem != nil && m.Problem.Code == "unavailable" {
			return heard, after, fmt.Errorf("subscribing: %w", m.Problem)
		}
	}
}

func begin(ctx context.Context, conn *websocket.Conn, o Options, at *string, users []string) error {
	if o.Deliveries {
		if err := conn.Write(ctx, websocket.MessageText, []byte(`{"type":"deliveries","enabled":true}`)); err != nil {
			return fmt.Errorf("asking for deliveries: %w", err)
		}
	}
	if !o.Resume {
		at = nil
	}
	return request(ctx, conn, "subscribe", users, at)
}

// follow changes the subscriptions with Current, until ctx ends.
func follow(ctx context.Context, conn *websocket.Conn, o Options, users []string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.Changed:
		}
		now := o.Current()
		if errors.Join(request(ctx, conn, "unsubscribe", without(users, now), nil),
			request(ctx, conn, "subscribe", without(now, users), nil)) != nil {
			_ = conn.CloseNow() // the next connection subscribes to all
			return
		}
		users = now
	}
}

// without returns the users that are not in others.
func without(users, others []string) []string {
	known := make(map[string]bool, len(others))
	for _, user := range others {
		known[user] = true
	}
	return slices.DeleteFunc(slices.Clone(users), func(user string) bool { return known[user] })
}

// request subscribes or unsubscribes; without users it sends nothing. since, if not nil, is the cursor
// to resume from, "" for none yet.
func request(ctx context.Context, conn *websocket.Conn, what string, users []string, since *string) error {
	if len(users) == 0 {
		return nil
	}
	message := map[string]any{"type": what, "user_ids": users}
	if since != nil {
		message["since"] = *since
	}
	text, err := json.Marshal(message)
	if err == nil {
		err = conn.Write(ctx, websocket.MessageText, text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// ping closes a connection whose other end no longer answers.
func ping(ctx context.Context, conn *websocket.Conn) {
	pings := schemas.ScheduleOf(pingEvery, 0)
	next := time.NewTimer(pings.First(rand.Float64))
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			next.Reset(pings.Next(rand.Float64))
			wait, cancel := context.WithTimeout(ctx, pongTimeout)
			err := conn.Ping(wait)
			cancel()
			if err != nil {
				_ = conn.CloseNow()
				return
			}
		}
	}
}
