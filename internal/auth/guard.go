package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// Guard authenticates requests before the endpoints see them.
type Guard struct {
	current atomic.Pointer[settings]
	refused *prometheus.CounterVec
	log     *slog.Logger
	now     func() time.Time

	// Of the goroutine that reloads.
	ctx    context.Context // of New //nolint:containedctx // bounds the fetching of keys
	config Config
}

// settings are what the guard goes by. They are replaced as a whole.
type settings struct {
	verifier           *verifier
	requests, connects *limits
}

// New makes a guard. It fetches keys until ctx ends. registry may be nil.
func New(ctx context.Context, c Config, registry prometheus.Registerer, log *slog.Logger) (*Guard, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	v, err := newVerifier(ctx, c, log)
	if err != nil {
		return nil, err
	}
	g := &Guard{
		now: time.Now, log: log, ctx: ctx, config: c,
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stillhere_auth_refused_total", Help: "Requests that authentication refused, by reason.",
		}, []string{"reason"}),
	}
	g.current.Store(&settings{v, newRequests(c), newConnects(c)})
	if registry != nil {
		registry.MustRegister(g.refused)
	}
	return g, nil
}

func newRequests(c Config) *limits { return newLimits(c.Requests, max(1, int(5*c.Requests))) }

func newConnects(c Config) *limits { return newLimits(c.Connects/60, max(1, int(c.Connects/12))) }

// Reload prepares other settings, with the newest keys, and returns what puts them in the place of
// the present ones. After an error nothing has changed. One goroutine may call both.
func (g *Guard) Reload(c Config) (commit func(), _ error) {
	c.Users = g.config.Users // a pipeline keeps them
	if err := c.Validate(); err != nil {
		return nil, err
	}
	was := g.current.Load()
	next := &settings{was.verifier, was.requests, was.connects}
	if c.Requests != g.config.Requests {
		next.requests = newRequests(c)
	}
	if c.Connects != g.config.Connects {
		next.connects = newConnects(c)
	}
	if verifies, before := c.verification(), g.config.verification(); verifies != before || !verifies.fetches() {
		var err error
		if next.verifier, err = newVerifier(g.ctx, c, g.log); err != nil {
			return nil, err
		}
		if err := next.verifier.fetched(g.ctx); err != nil {
			next.verifier.stop()
			return nil, fmt.Errorf("auth_jwks: %w", err)
		}
	}
	return func() {
		g.current.Store(next)
		g.config = c
		switch keys := was.verifier.keys; {
		case next.verifier != was.verifier:
			was.verifier.stop()
		case keys != nil:
			keys.ask()
		}
	}, nil
}

// Ready is nil if tokens can be verified.
func (g *Guard) Ready(ctx context.Context) error { return g.current.Load().verifier.ready(ctx) }

// Wait stops fetching keys, and returns when that has ended.
func (g *Guard) Wait() { g.current.Load().verifier.stop() }

// Need is what an endpoint asks of the token of a request.
type Need struct {
	Public   bool   // no token
	Scope    string // empty: a token with any scopes
	Connects bool   // the endpoint opens a socket or stream, whose token may be in the query
}

// Protect passes requests that their token allows on to next, after with has put the caller into
// the request's context. need says what the endpoint that will serve a request asks for.
func (g *Guard) Protect(next http.Handler, need func(*http.Request) Need, with func(context.Context, *Caller) context.Context) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		need := need(r)
		if need.Public {
			next.ServeHTTP(w, r)
			return
		}
		token, r, err := take(r, need.Connects)
		if err != nil {
			g.refuse(w, http.StatusUnauthorized, "no_token", err.Error())
			return
		}
		who, err := g.current.Load().verifier.verify(r.Context(), token)
		switch {
		case errors.Is(err, errNoKeys):
			w.Header().Set("Retry-After", "1")
			g.refuse(w, http.StatusServiceUnavailable, "keys_unavailable", errNoKeys.Error())
			return
		case errors.Is(err, errTenant):
			g.refuse(w, http.StatusForbidden, "tenants_need_text_ids", errTenant.Error())
			return
		case err != nil:
			g.refuse(w, http.StatusUnauthorized, "invalid_token", err.Error())
			return
		case need.Scope != "" && !who.May(need.Scope):
			g.refuse(w, http.StatusForbidden, "insufficient_scope", "the token lacks the scope "+need.Scope)
			return
		}
		if wait := g.wait(who, need.Connects); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(seconds(wait)))
			g.refuse(w, http.StatusTooManyRequests, "too_many_requests", "too many requests of "+who.shown())
			return
		}
		ctx := with(r.Context(), who)
		if need.Connects {
			var cancel context.CancelFunc
			ctx, cancel = WithTerm(ctx, who.Until, func(token string) (time.Time, error) { return g.renews(who, token) })
			defer cancel()
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Refused counts a request that an endpoint refused because of its caller.
func (g *Guard) Refused(reason string) { g.refused.WithLabelValues(reason).Inc() }

func (g *Guard) wait(who *Caller, connects bool) time.Duration {
	if who.Gateway != "" {
		return 0
	}
	if connects {
		return g.current.Load().connects.take(who.User, 1, g.now())
	}
	return g.current.Load().requests.take(who.User, 1, g.now())
}

// Charge counts the beats of a request, or what else counts like requests, towards the caller's
// limit; Protect has counted one of them. wait is the time until the request may be repeated. If most is not 0 it never may,
// because at most so many beats are within the limit at once. A refused request costs nothing
// more, but one that never may be repeated uses up the limit: reading it was work.
func (g *Guard) Charge(who *Caller, beats int) (wait time.Duration, most int) {
	requests := g.current.Load().requests
	switch burst := requests.burst; {
	case requests.each == 0 || who.Gateway != "" || beats <= 1:
		return 0, 0
	case beats > burst:
		requests.empty(who.User, g.now())
		g.Refused("too_many_beats")
		return 0, burst
	}
	if wait = requests.take(who.User, beats-1, g.now()); wait > 0 {
		g.Refused("too_many_requests")
	}
	return wait, 0
}

// parameter is the query parameter with the token of a browser's WebSocket.
const parameter = "access_token"

var (
	errNoToken  = errors.New("a token is needed: Authorization: Bearer …")
	errTwoToken = errors.New("there is more than one token")
)

// take returns the token, and the request without it in its query.
func take(r *http.Request, connects bool) (string, *http.Request, error) {
	var tokens []string
	for _, header := range r.Header.Values("Authorization") {
		kind, token, _ := strings.Cut(header, " ")
		if !strings.EqualFold(kind, "Bearer") || strings.TrimSpace(token) == "" {
			return "", r, errNoToken
		}
		tokens = append(tokens, strings.TrimSpace(token))
	}
	if connects {
		query := r.URL.Query()
		tokens = append(tokens, query[parameter]...)
		if query.Has(parameter) {
			query.Del(parameter)
			u := *r.URL
			u.RawQuery = query.Encode()
			r = r.Clone(r.Context())
			r.URL, r.RequestURI = &u, u.RequestURI()
		}
	}
	switch len(tokens) {
	case 0:
		return "", r, errNoToken
	case 1:
		return tokens[0], r, nil
	}
	return "", r, errTwoToken // RFC 6750, section 2: one method at a time
}

func (g *Guard) refuse(w http.ResponseWriter, status int, code, message string) {
	g.Refused(code)
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		challenge := "Bearer"
		if code != "no_token" {
			challenge += ` error="` + code + `"`
		}
		w.Header().Set("WWW-Authenticate", challenge)
	}
	web.Write(w, status, &schemas.FieldError{Code: code, Reason: message})
}
