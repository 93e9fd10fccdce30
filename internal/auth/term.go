package auth

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/strictjson"
	"github.com/stillhere/stillhere/schemas"
)

// Term is for how long the token of a socket allows it. Another token of the same caller prolongs it, so
// that clients need not open another socket. Any goroutine may use it; the methods of nil are those of a
// socket without authentication.
type Term struct {
	check func(token string) (time.Time, error)

	mu    sync.Mutex
	until time.Time
	timer *time.Timer // nil before Begin
}

type termKey struct{}

// WithTerm is the context of a request that opens a socket or a stream and ends at until. check returns until
// when another token allows the same, or why not, as a *schemas.FieldError. Streams that take no other token
// go by the context's deadline.
func WithTerm(ctx context.Context, until time.Time, check func(token string) (time.Time, error)) (context.Context, context.CancelFunc) {
	return context.WithDeadline(context.WithValue(ctx, termKey{}, &Term{until: until, check: check}), until)
}

// TermOf is that of a request that opens a socket or a stream; nil without authentication.
func TermOf(ctx context.Context) *Term {
	t, _ := ctx.Value(termKey{}).(*Term)
	return t
}

// Begin calls end when the term is over. Pair with Stop.
func (t *Term) Begin(end func()) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(time.Until(t.until), end)
}

func (t *Term) Stop() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer.Stop()
}

// Message tells the client how long its token lasts; nil without authentication.
func (t *Term) Message() []byte {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return []byte(`{"type":"token","ends_in_ms":` + strconv.FormatInt(max(0, time.Until(t.until).Milliseconds()), 10) + `}`)
}

// Renew takes the message {"type":"token","token":"…"}; the answer is Message. Every error is a
// *schemas.FieldError, after which the term is what it was.
func (t *Term) Renew(message []byte) error {
	token, err := decodeRenewal(message)
	if err != nil {
		return err
	}
	if t == nil {
		return &schemas.FieldError{Code: "no_tokens", Field: "token", Reason: "is not needed: this server asks for none"}
	}
	until, err := t.check(token)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// Each token allows the socket; the later end counts. A term that is over stays over.
	if until.After(t.until) && (t.timer == nil || t.timer.Stop()) {
		t.until = until
		if t.timer != nil {
			t.timer.Reset(time.Until(until))
		}
	}
	return nil
}

func decodeRenewal(message []byte) (token string, err error) {
	r := strictjson.NewReader("message", message)
	err = r.Document(func(key []byte) (err error) {
		switch {
		case string(key) == "type":
			return r.Skip()
		case string(key) != "token":
			return strictjson.Unknown(key)
		case token != "":
			return strictjson.Twice(key)
		}
		token, err = r.Text("token")
		return err
	})
	if err == nil && token == "" {
		err = schemas.Invalid("token", "must be set")
	}
	return token, err
}

// renews returns until when a token prolongs a socket of who.
func (g *Guard) renews(who *Caller, token string) (time.Time, error) {
	refuse := func(code, reason string) (time.Time, error) {
		g.Refused(code)
		return time.Time{}, &schemas.FieldError{Code: code, Field: "token", Reason: reason}
	}
	next, err := g.current.Load().verifier.verify(g.ctx, token)
	switch {
	case errors.Is(err, errNoKeys):
		return refuse("keys_unavailable", err.Error())
	case err != nil:
		return refuse("invalid_token", err.Error())
	case !who.same(next):
		return refuse("another_token", "is of another caller or has other scopes, which needs another connection")
	}
	return next.Until, nil
}

// same reports whether the callers differ in nothing but until when.
func (c *Caller) same(next *Caller) bool {
	a, b := *c, *next
	a.Until, b.Until = time.Time{}, time.Time{}
	a.Scopes, b.Scopes = slices.Sorted(slices.Values(c.Scopes)), slices.Sorted(slices.Values(next.Scopes))
	return reflect.DeepEqual(a, b)
}
