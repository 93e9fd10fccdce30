package auth_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// opened calls act with the term of a socket that is opened with a token.
func opened(t *testing.T, token string, act func(*auth.Term)) {
	t.Helper()
	c := auth.Defaults()
	c.Secret, c.Leeway = keys.Secret{Value: secret}, 0
	g := must.Get(auth.New(t.Context(), c, nil, slog.New(slog.DiscardHandler)))(t)
	h := g.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		act(auth.TermOf(r.Context()))
	}), func(*http.Request) auth.Need { return auth.Need{Scope: auth.Read, Connects: true} },
		func(ctx context.Context, _ *auth.Caller) context.Context { return ctx })
	if answer := ask(h, "GET", "/presence/stream?access_token="+token); answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
}

func renewal(token string) []byte { return []byte(`{"type":"token","token":"` + token + `"}`) }

func TestAnotherTokenOfTheSameCallerProlongsASocketAndNoOtherDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lasting := func(seconds int) map[string]any { return map[string]any{"exp": time.Now().Unix() + int64(seconds)} }
		with := func(name string, value any) map[string]any {
			c := lasting(600)
			c[name] = value
			return c
		}
		begun := time.Now()
		opened(t, good(t, lasting(60)), func(term *auth.Term) {
			var ended atomic.Int64 // a timer's goroutine sets it
			term.Begin(func() { ended.Store(int64(time.Since(begun))) })
			defer term.Stop()
			for _, wrong := range []struct {
				message []byte
				code    string
			}{
				{renewal(good(t, with("sub", "43"))), "another_token"},
				{renewal(good(t, lasting(600)) + "x"), "invalid_token"},
				{[]byte(`{"type":"token"}`), "invalid_argument"},
				{[]byte(`{"type":"token","token":"x","user":"43"}`), "unknown_field"},
			} {
				if bad := new(schemas.FieldError); !errors.As(term.Renew(wrong.message), &bad) || bad.Code != wrong.code {
					t.Errorf("%s is answered %v, not %s", wrong.message, bad, wrong.code)
				}
			}
			for _, more := range []map[string]any{with("scope", "presence:admin"), with("scope", "presence:read"), with("gateway_id", "g")} {
				if err := term.Renew(renewal(good(t, more))); err == nil {
					t.Errorf("a token with %v prolongs the socket", more)
				}
			}
			if got := string(term.Message()); got != `{"type":"token","ends_in_ms":60000}` {
				t.Errorf("the refused ones leave %s", got)
			}
			for _, seconds := range []int{600, 30} { // each allows the socket, so the later end counts
				if err := term.Renew(renewal(good(t, lasting(seconds)))); err != nil {
					t.Error(err)
				}
			}
			if got := string(term.Message()); got != `{"type":"token","ends_in_ms":600000}` {
				t.Errorf("the renewed one says %s", got)
			}
			time.Sleep(time.Hour)
			if after := time.Duration(ended.Load()); after != 600*time.Second {
				t.Errorf("the socket ended after %s", after)
			}
			if err := term.Renew(renewal(good(t, lasting(600)))); err != nil || string(term.Message()) != `{"type":"token","ends_in_ms":0}` {
				t.Errorf("what is over began again: %v %s", err, term.Message())
			}
		})
	})
}

func TestASocketWithoutAuthenticationTakesNoToken(t *testing.T) {
	t.Parallel()
	term := auth.TermOf(httptest.NewRequest(http.MethodGet, "/presence/stream", nil).Context())
	if bad := new(schemas.FieldError); !errors.As(term.Renew(renewal("x")), &bad) || bad.Code != "no_tokens" || term.Message() != nil {
		t.Error(bad, term.Message())
	}
}
