package graphgate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/sqlitegraph"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// world is a server over SQLite. Tests change its Dependencies.
type world struct {
	*testing.T
	*Server
	graph *graph.Store
	mux   *http.ServeMux
}

func newWorld(t *testing.T) *world {
	t.Helper()
	g := must.Get(sqlitegraph.Open(t.Context(), filepath.Join(t.TempDir(), "graph.db")))(t)
	t.Cleanup(g.Close)
	w := &world{t, New(Defaults(), Dependencies{Store: g, Log: slog.New(slog.DiscardHandler),
		CheckOrigin: func(*http.Request) error { return nil },
		Charge:      func(*http.Request, int) (time.Duration, int) { return 0, 0 }}), g, http.NewServeMux()}
	w.Routes(w.mux)
	return w
}

func (w *world) ask(method, path, body string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	w.mux.ServeHTTP(answer, httptest.NewRequestWithContext(w.Context(), method, path, strings.NewReader(body)))
	return answer
}

// wants fails unless the answer has this status and, if text is not empty, contains it.
func (w *world) wants(answer *httptest.ResponseRecorder, status int, text string) {
	w.Helper()
	if answer.Code != status || !strings.Contains(answer.Body.String(), text) {
		w.Errorf("%d %s, want %d %s", answer.Code, answer.Body, status, text)
	}
}

func TestAFollowerIsAddedAndRemovedHoweverOftenItIsAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 2 {
		w.wants(w.ask("PUT", "/presence/1/followers/2", ""), 204, "")
		w.wants(w.ask("GET", "/presence/1/followers", ""), 200, `{"followers":["2"],"next_cursor":null}`)
	}
	for range 2 {
		w.wants(w.ask("DELETE", "/presence/1/followers/2", ""), 204, "")
		w.wants(w.ask("GET", "/presence/1/followers", ""), 200, `{"followers":[],"next_cursor":null}`)
	}
}

func TestPagesTogetherAreAllFollowersOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"9223372036854775807", "5", "9007199254740993", "7"} {
		w.wants(w.ask("PUT", "/presence/1/followers/"+id, ""), 204, "")
	}
	w.wants(w.ask("GET", "/presence/1/followers?limit=2", ""), 200, `{"followers":["5","7"],"next_cursor":"7"}`)
	w.wants(w.ask("GET", "/presence/1/followers?limit=2&cursor=7", ""), 200,
		`{"followers":["9007199254740993","9223372036854775807"],"next_cursor":null}`)
	w.wants(w.ask("GET", "/presence/1/followers?limit=1000&cursor=9223372036854775807", ""), 200, `{"followers":[],"next_cursor":null}`)
}

func TestAMutualFriendshipIsMadeAndEndedInOneCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wants(w.ask("POST", "/presence/followers", `{"mutual":true,"add":[{"user_id":"1","follower_id":2},{"user_id":3,"follower_id":"1"}]}`),
		200, `{"added":4,"removed":0}`)
	w.wants(w.ask("GET", "/presence/1/followers", ""), 200, `["2","3"]`)
	w.wants(w.ask("GET", "/presence/2/followers", ""), 200, `["1"]`)
	w.wants(w.ask("POST", "/presence/followers", `{"remove":[{"user_id":2,"follower_id":1}],"add":[{"user_id":4,"follower_id":1}],"mutual":true}`),
		200, `{"added":2,"removed":2}`)
	w.wants(w.ask("GET", "/presence/1/followers", ""), 200, `["3","4"]`)
}

func TestABadEntryIsNamedAndNothingOfTheRequestIsDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const good = `{"user_id":1,"follower_id":2}`
	for body, want := range map[string]struct{ code, field string }{
		`{"add":[` + good + `,{"user_id":0,"follower_id":2}]}`:                          {"invalid_user_id", "add[1].user_id"},
		`{"add":[` + good + `,{"user_id":1}]}`:                                          {"invalid_user_id", "add[1].follower_id"},
		`{"add":[` + good + `,{"follower_id":1}]}`:                                      {"invalid_user_id", "add[1].user_id"},
		`{"add":[` + good + `],"remove":[{"user_id":5,"follower_id":5}]}`:               {"conflict", "remove[0].follower_id"},
		`{"add":[` + good + `],"remove":[` + good + `]}`:                                {"conflict", "remove[0]"},
		`{"add":[` + good + `],"remove":[{"user_id":2,"follower_id":1}],"mutual":true}`: {"conflict", "remove[0]"},
		`{"add":[{"user_id":1,"follower_id":2,"since":3}]}`:                             {"unknown_field", "add[0].since"},
		`{"add":[{"user_id":1,"user_id":1,"follower_id":2}]}`:                           {"repeated_field", "add[0].user_id"},
		`{"add":[` + good + `],"add":[]}`:                                               {"repeated_field", "add"},
		`{"add":[` + good + `],"mutual":1}`:                                             {"invalid_argument", "mutual"},
		`{"add":[7]}`:                                                                   {"invalid_argument", "add[0]"},
		`{"add":{}}`:                                                                    {"invalid_argument", "add"},
		`{"add":[],"remove":[]}`:                                                        {"invalid_argument", "add"},
		`{"add":[` + good:                                                               {"malformed", "body"},
		`[]`:                                                                            {"invalid_argument", "body"},
		``:                                                                              {"malformed", "body"},
		`{"add":[` + strings.Repeat(good+",", 1000) + good + `]}`:                       {"too_many_entries", "add"},
	} {
		status := 400
		if want.code == "conflict" {
			status = 409
		}
		w.wants(w.ask("POST", "/presence/followers", body), status, fmt.Sprintf(`{"error":{"code":%q,"message":"%s: `, want.code, want.field))
	}
	w.wants(w.ask("GET", "/presence/1/followers", ""), 200, `[]`)
	w.wants(w.ask("POST", "/presence/followers", strings.Repeat(" ", 256<<10+1)), 413, "too_large")
	for path, field := range map[string]string{
		"PUT /presence/0/followers/2": "user_id", "DELETE /presence/1/followers/x": "follower_id",
		"PUT /presence/1/followers/2?mutual=true": "mutual", "GET /presence/x/followers": "user_id", "GET /presence/1/followers?limit=1001": "limit",
		"GET /presence/1/followers?cursor=0": "cursor", "GET /presence/1/followers?limit=1&limit=2": "limit", "POST /presence/followers?x=1": "x",
	} {
		method, path, _ := strings.Cut(path, " ")
		w.wants(w.ask(method, path, `{"add":[`+good+`]}`), 400, `"field":"`+field+`"`)
	}
	w.wants(w.ask("PUT", "/presence/1/followers/1", ""), 409, `"field":"follower_id"`)
	w.wants(w.ask("GET", "/presence/1/followers", ""), 200, `[]`)
}

func TestEntriesAreChargedAndRefusedBeforeTheStoreIsAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var charged int
	wait, most := 1500*time.Millisecond, 0
	w.Charge = func(_ *http.Request, entries int) (time.Duration, int) { charged += entries; return wait, most }
	const body = `{"add":[{"user_id":1,"follower_id":2},{"user_id":1,"follower_id":3}],"mutual":true}`
	answer := w.ask("POST", "/presence/followers", body)
	w.wants(answer, 429, "too_many_requests")
	if after := answer.Header().Get("Retry-After"); charged != 2 || after != "2" {
		t.Errorf("%d entries were charged, Retry-After is %q", charged, after)
	}
	wait, most = 0, 1
	w.wants(w.ask("POST", "/presence/followers", body), 400, "too_many_entries")
	w.wants(w.ask("GET", "/presence/1/followers", ""), 200, `[]`)
}

// broken is a store that does not answer.
type broken struct{ asked chan struct{} }

func (b broken) Change(ctx context.Context, _, _ []graph.Edge, _ graph.Names) (int64, int64, error) {
	if b.asked != nil {
		close(b.asked)
		<-ctx.Done()
	}
	return 0, 0, errors.New("password of the store")
}

func (broken) Names(context.Context, []schemas.UserID) (graph.Names, error) {
	return nil, errors.New("password of the store")
}

func (broken) Page(context.Context, []schemas.UserID, schemas.UserID, schemas.UserID, schemas.UserID, int) ([]schemas.UserID, error) {
	return nil, errors.New("password of the store")
}

func TestAStoreThatFailsIsA503WithoutDetails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Store = broken{}
	for _, path := range []string{"PUT /presence/1/followers/2", "DELETE /presence/1/followers/2", "GET /presence/1/followers"} {
		method, path, _ := strings.Cut(path, " ")
		answer := w.ask(method, path, "")
		if w.wants(answer, 503, "unavailable"); answer.Header().Get("Retry-After") != "1" || strings.Contains(answer.Body.String(), "password") {
			t.Errorf("%s: %v %s", path, answer.Header(), answer.Body)
		}
	}
}

func TestRequestsBeyondTheBoundAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.slots = make(chan struct{}, 1)
	asked := make(chan struct{})
	w.Store = broken{asked}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "PUT", "/presence/1/followers/2", nil))
	}()
	<-asked
	w.wants(w.ask("GET", "/presence/1/followers", ""), 503, "overloaded")
	cancel()
	<-done
}

func TestAPageOfAnotherSiteIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.CheckOrigin = func(*http.Request) error { return &schemas.FieldError{Code: "forbidden_origin", Reason: "no"} }
	w.wants(w.ask("PUT", "/presence/1/followers/2", ""), 403, "forbidden_origin")
}

func FuzzDecodeBulk(f *testing.F) {
	f.Add([]byte(`{"add":[{"user_id":"1","follower_id":2}],"remove":[{"user_id":3,"follower_id":4}],"mutual":true}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		b, err := decodeBulk(body, 10, users{})
		if err != nil {
			if !schemas.IsInvalid(err) {
				t.Fatalf("an error without a field: %v", err)
			}
			return
		}
		for _, e := range append(b.directed(b.add), b.directed(b.remove)...) {
			if !e.User.Valid() || !e.Follower.Valid() || e.User == e.Follower {
				t.Fatalf("%s has the edge %+v", body, e)
			}
		}
		if n := b.entries(); n < 1 || n > 10 {
			t.Fatalf("%s has %d entries", body, n)
		}
	})
}
