// Package presence reads the presence of users and its history over HTTP.
//
//	c, err := presence.New(presence.Config{HTTP: client.HTTP{URL: "https://presence.example.com"}})
//	states, err := c.Batch(ctx, "1", "2", "3")
//	users, err := c.Users(ctx, "1", "2", "3") // with last seen and devices
//	user, err := c.One(ctx, "1")
//	for change, err := range c.History(ctx, "1", presence.Range{From: yesterday}) { … }
//
// Users are given by name; with --ids int that is the number in decimal. c.Tenant("acme") reads the users
// of a tenant.
//
// A request without an answer, or with the answer 408, 429 or 5xx, is repeated after a growing,
// jittered pause or after the time that the server asks for. Every other answer except 200 is a
// *client.ProblemError at once.
package presence

import (
	"bytes"
	"cmp"
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
	"strconv"
	"strings"
	"time"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/internal/connect"
	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/schemas"
)

// Config configures a Client. HTTP is required.
type Config struct {
	HTTP client.HTTP
	// Attempts is how often a request is made at most [4].
	Attempts int
	// FirstWait is the pause before the second attempt [100ms]; it doubles up to MaxWait [5s].
	FirstWait, MaxWait time.Duration
	// Timeout bounds one attempt [10s].
	Timeout time.Duration
	// PageSize is how many changes of a history one request reads, up to 1,000 [100].
	PageSize int
	// MarkUnsure makes Batch return Unsure in place of a state that is not certain. Users returns UnsureSince and
	// StaleSince in any case.
	MarkUnsure bool
}

func (c Config) withDefaults() Config {
	c.Attempts = cmp.Or(c.Attempts, 4)
	c.FirstWait = cmp.Or(c.FirstWait, 100*time.Millisecond)
	c.MaxWait = cmp.Or(c.MaxWait, 5*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.PageSize = cmp.Or(c.PageSize, 100)
	c.HTTP.Client = cmp.Or(c.HTTP.Client, http.DefaultClient)
	return c
}

// Validate reports all faults, joined.
func (c Config) Validate() error {
	c = c.withDefaults()
	var all faults.List
	all.Add(c.HTTP.Validate())
	all.Field(c.Attempts < 1, "presence.attempts", "must be positive")
	all.Field(c.FirstWait < 0, "presence.first_wait", "must be positive")
	all.Field(c.MaxWait < c.FirstWait, "presence.max_wait", "must be at least first_wait")
	all.Field(c.Timeout < 0, "presence.timeout", "must be positive")
	all.Field(c.PageSize < 1 || c.PageSize > 1000, "presence.page_size", "must be between 1 and 1000")
	return all.Err()
}

// Client reads presence. Any goroutine may use it.
type Client struct {
	config Config
	tenant string
}

// New makes a client; it does not connect yet.
func New(c Config) (*Client, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Client{config: c.withDefaults()}, nil
}

// Tenant is a client of the users of a tenant, with --ids text. That of New, and of "", is one of the users of
// the token's tenant, or of the default one.
func (c *Client) Tenant(tenant string) *Client { return &Client{c.config, tenant} }

// States of a user. Hidden stands for a hidden user and for a user whom the token may not watch.
const (
	Online  = "online"
	Away    = "away"
	Offline = "offline"
	Hidden  = ""
	// Unsure: only devices of lost gateways are present, or the state may be out of date.
	Unsure = "unsure"

	// DND and Invisible are, besides Away, states of an Override.
	DND       = "dnd"
	Invisible = "invisible"

	// These are of an Audience.
	Everyone, Nobody     = "everyone", "nobody"
	Exact, Coarse, Never = "exact", "coarse", "never"
)

// States are the states of users.
type States struct {
	Of map[string]string
	// StaleSince is not 0 if some of the states may be out of date: since when at the earliest.
	StaleSince schemas.Millis
}

// maxBatch is how many users the server accepts in a request.
const maxBatch = 1000

// Batch reads the states of any number of users, 1,000 in a request. An unknown user is Offline.
func (c *Client) Batch(ctx context.Context, users ...string) (States, error) {
	all, query := States{Of: make(map[string]string, len(users))}, url.Values{}
	if c.config.MarkUnsure {
		query.Set("unsure", "mark")
	}
	for some := range slices.Chunk(distinct(users), maxBatch) {
		var states map[string]*string
		header, err := c.several(ctx, "batch", query, asked{UserIDs: some}, &states)
		if err != nil {
			return States{}, fmt.Errorf("reading the states of %d users: %w", len(some), err)
		}
		for user, state := range states {
			all.Of[user] = Hidden
			if state != nil {
				all.Of[user] = *state
			}
		}
		if since := staleSince(header); since != 0 && (all.StaleSince == 0 || since < all.StaleSince) {
			all.StaleSince = since
		}
	}
	return all, nil
}

// staleSince is since when some states of a batch may be out of date; 0: none.
func staleSince(header http.Header) schemas.Millis {
	at, err := time.Parse(time.RFC3339, header.Get("Stale-Since"))
	if err != nil {
		return 0
	}
	return schemas.MillisOf(at)
}

// distinct are users in the order of the first mention of each.
func distinct(users []string) (all []string) {
	met := make(map[string]bool, len(users))
	for _, user := range users {
		if !met[user] {
			met[user], all = true, append(all, user)
		}
	}
	return all
}

// Users reads any number of users, 1,000 in a request, in the order of the first mention of each. The fields of
// a hidden user, and of a user whom the token may not watch, are nil and 0.
func (c *Client) Users(ctx context.Context, users ...string) (all []schemas.User, err error) {
	for some := range slices.Chunk(distinct(users), maxBatch) {
		var answer struct{ Users []schemas.User }
		if _, err := c.several(ctx, "batch", url.Values{}, asked{UserIDs: some, Detail: true}, &answer); err != nil {
			return nil, fmt.Errorf("reading %d users: %w", len(some), err)
		}
		all = append(all, answer.Users...)
	}
	return all, nil
}

// Changes are what a reader has missed of some users.
type Changes struct {
	// Resync says that the changes cannot be listed, for Reason: start, unknown, retention, log_epoch or
	// too_many. Users has the present state of each user then.
	Resync bool
	Reason string
	Users  []schemas.User
	// Changes are ordered by user and version: each visible change after the cursor once. Of a hidden
	// user that is the hide alone.
	Changes []schemas.User
	// Cursor is for the next call with the same users.
	Cursor string
	// More says that further changes can be read at once.
	More bool
	// StaleSince is not 0 if changes may be missing at the end: since when. The next call has them.
	StaleSince schemas.Millis `json:"stale_since"`
}

// Changes reads what has happened to up to 1,000 users since a cursor; "" the first time. The cursor is
// that of the answer before, about the same users in any order.
func (c *Client) Changes(ctx context.Context, since string, users ...string) (changes Changes, err error) {
	if _, err := c.several(ctx, "changes", url.Values{}, asked{UserIDs: users, Since: since}, &changes); err != nil {
		return Changes{}, fmt.Errorf("reading the changes of %d users: %w", len(users), err)
	}
	return changes, nil
}

// asked is the body of a request about several users.
type asked struct {
	UserIDs []string `json:"user_ids"`
	Detail  bool     `json:"detail,omitempty"`
	Since   string   `json:"since,omitempty"`
}

func (c *Client) several(
	ctx context.Context, path string, query url.Values, about asked, to any,
) (http.Header, error) {
	body, err := json.Marshal(about)
	if err != nil {
		panic(err) // texts can always be encoded
	}
	return c.ask(ctx, http.MethodPost, c.path(path, query), body, to)
}

// path is that of an endpoint, with the tenant.
func (c *Client) path(of string, query url.Values) string {
	if c.tenant != "" {
		query.Set("tenant", c.tenant)
	}
	if len(query) > 0 {
		of += "?" + query.Encode()
	}
	return "/presence/" + of
}

// pathOf is that of an endpoint about a user. It is below /presence/users/, because a name may be that of another
// endpoint.
func (c *Client) pathOf(user, rest string, query url.Values) string {
	return c.path("users/"+url.PathEscape(user)+rest, query)
}

// one asks an endpoint about a user. Without a name the path would be that of another one.
func (c *Client) one(ctx context.Context, method, user, rest string, body []byte, to any) error {
	return c.some(ctx, method, user, rest, url.Values{}, body, to)
}

// some is one with parameters.
func (c *Client) some(ctx context.Context, method, user, rest string, query url.Values, body []byte, to any) error {
	if err := schemas.CheckName("user", user); err != nil {
		return err
	}
	if c.config.HTTP.Token == nil && method == http.MethodGet && rest != "" {
		query.Set("user_id", user) // without a token the request says who reads what is the user's own
	}
	_, err := c.ask(ctx, method, c.pathOf(user, rest, query), body, to)
	return err
}

// One reads one user.
func (c *Client) One(ctx context.Context, user string) (p schemas.User, err error) {
	if err := c.one(ctx, http.MethodGet, user, "", nil, &p); err != nil {
		return p, fmt.Errorf("reading user %q: %w", user, err)
	}
	return p, nil
}

// Range bounds a history: changes at or after From and before To. The zero time is no bound.
type Range struct{ From, To time.Time }

// Change is one entry of a history.
type Change struct {
	EventID      string         `json:"event_id"`
	From         string         `json:"from"`
	To           string         `json:"to"`
	At           schemas.Millis `json:"at"`
	LastSeenAt   schemas.Millis `json:"last_seen_at"`
	LastActiveAt schemas.Millis `json:"last_active_at"`
	Cause        string         `json:"cause"`
	// DeviceID is the device that caused the change; 0: none.
	DeviceID schemas.DeviceID `json:"device_id"`
	Devices  []string         `json:"devices"`
	// Kinds has the state of each of Devices.
	Kinds    schemas.KindStates `json:"kinds"`
	Version  string             `json:"version"`
	PolicyID string             `json:"policy_id"`
	// LeftOut is how many changes since the previous one were not published because the user
	// changed too often.
	LeftOut uint32 `json:"left_out"`
}

// History yields the changes of a user, newest first. It reads one page after the other. An error
// is the last element.
func (c *Client) History(ctx context.Context, user string, within Range) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		query := url.Values{"limit": {strconv.Itoa(c.config.PageSize)}}
		for name, bound := range map[string]time.Time{"from": within.From, "to": within.To} {
			if !bound.IsZero() {
				query.Set(name, strconv.FormatInt(bound.UnixMilli(), 10))
			}
		}
		for {
			var page struct {
				Changes    []Change `json:"changes"`
				NextCursor *string  `json:"next_cursor"`
			}
			if _, err := c.ask(ctx, http.MethodGet, c.pathOf(user, "/history", query), nil, &page); err != nil {
				yield(Change{}, fmt.Errorf("reading the history of user %q: %w", user, err))
				return
			}
			for _, change := range page.Changes {
				if !yield(change, nil) {
					return
				}
			}
			if page.NextCursor == nil {
				return
			}
			query.Set("cursor", *page.NextCursor)
		}
	}
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 16 << 20

// ask requests path until it succeeds or may not be repeated, and decodes the answer into to. Only
// reads may be asked: a request may arrive several times.
func (c *Client) ask(ctx context.Context, method, path string, body []byte, to any) (http.Header, error) {
	wait := c.config.FirstWait
	for attempt := 1; ; attempt++ {
		header, err := c.try(ctx, method, path, body, to)
		if err == nil {
			return header, nil
		}
		var problem *client.ProblemError
		answered := errors.As(err, &problem)
		if attempt == c.config.Attempts || ctx.Err() != nil || answered && !problem.Temporary() {
			return nil, err
		}
		pause := wait/2 + rand.N(wait/2+1)
		if answered {
			pause = max(pause, min(problem.After, c.config.MaxWait))
		}
		wait = min(2*wait, c.config.MaxWait)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (c *Client) try(ctx context.Context, method, path string, sent []byte, to any) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	answer, err := c.request(ctx, method, path, sent)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	return answer.Header, json.Unmarshal(body, to)
}

// request returns the answer to a request. One that is no success is a *client.ProblemError.
func (c *Client) request(ctx context.Context, method, path string, sent []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(c.config.HTTP.URL, "/")+path,
		bytes.NewReader(sent))
	if err != nil {
		return nil, err
	}
	if request.Header, err = connect.Header(ctx, c.config.HTTP); err != nil {
		return nil, err
	}
	if len(sent) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.config.HTTP.Client.Do(request)
	if err != nil || answer.StatusCode == http.StatusOK {
		return answer, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	return nil, client.ProblemOf(answer.StatusCode, answer.Header, body)
}
