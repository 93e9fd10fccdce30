package query_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/schemas"
)

func (w *world) post(tb testing.TB, body string, header ...string) *httptest.ResponseRecorder {
	tb.Helper()
	return w.ask(tb, http.MethodPost, "/presence/batch", body, header...)
}

// some users of all kinds: online, away, left, hidden and never seen.
func someUsers(tb testing.TB, w *world) {
	idle := arrives(2, 2, day)
	idle.To, idle.Cause = schemas.Away, schemas.Idle
	w.happen(tb, arrives(1, 1, day), idle, arrives(3, 3, day), leaves(3, 4, day+1), arrives(4, 5, day), hides(4, 6, day+1))
}

func TestABatchInABodyIsTheSameAsInTheURL(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	someUsers(t, w)
	stood := now() - 3_600_000
	w.upTo(t, stood)
	const want = `{"2":"away","1":"online","9223372036854775807":"offline","4":null,"3":"offline"}`
	for _, body := range []string{
		`{"user_ids":["2",1,"2",9223372036854775807,4,"3","1"]}`,
		` { "detail" : false , "user_ids" : [ 2, 1, "9223372036854775807", "4", 3 ] } `,
	} {
		answer := w.post(t, body)
		if answer.Code != http.StatusOK || answer.Body.String() != want+"\n" || answer.Header().Get("Stale-Since") != stood.String() {
			t.Errorf("%s is answered with %d %v %s", body, answer.Code, answer.Header(), answer.Body)
		}
	}
	w.want(t, "/presence/batch?user_ids=2,1,2,9223372036854775807,4,3,1", want)
}

func TestABatchWithDetailHasTheUsersAsOneByOneInTheOrderAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	someUsers(t, w)
	w.upTo(t, now())
	var users []string
	for _, id := range []int{2, 4, 1, 5, 3} {
		_, user := w.get(t, fmt.Sprintf("/presence/%d", id))
		users = append(users, strings.TrimSpace(user))
	}
	answer := w.post(t, `{"user_ids":[2,4,1,5,2,3],"detail":true}`, "Content-Type", "application/json")
	if want := `{"users":[` + strings.Join(users, ",") + "]}\n"; answer.Code != http.StatusOK || answer.Body.String() != want {
		t.Errorf("%d %s, want %s", answer.Code, answer.Body, want)
	}
}

func TestABadBodyIsAnsweredByNamingTheField(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	many := `{"user_ids":[` + strings.TrimSuffix(strings.Repeat("1,", 1001), ",") + `]}`
	for _, c := range []struct {
		body   string
		status int
		code   string
		field  string
	}{
		{``, 400, "malformed", "body"},
		{`[]`, 400, "invalid_argument", "body"},
		{`{}`, 400, "invalid_argument", "user_ids"},
		{`{"user_ids":[]}`, 400, "invalid_argument", "user_ids"},
		{`{"user_ids":"1"}`, 400, "invalid_argument", "user_ids"},
		{`{"user_ids":[1,2,3,0]}`, 400, "invalid_user_id", "user_ids[3]"},
		{`{"user_ids":["1","x"]}`, 400, "invalid_user_id", "user_ids[1]"},
		{`{"user_ids":[1.5]}`, 400, "invalid_user_id", "user_ids[0]"},
		{`{"user_ids":[null]}`, 400, "invalid_user_id", "user_ids[0]"},
		{`{"user_ids":[9223372036854775808]}`, 400, "invalid_user_id", "user_ids[0]"},
		{`{"user_ids":[1],"user_ids":[2]}`, 400, "repeated_field", "user_ids"},
		{`{"user_ids":[1],"details":true}`, 400, "unknown_field", "details"},
		{`{"user_ids":[1],"detail":"yes"}`, 400, "invalid_argument", "detail"},
		{`{"user_ids":[1]} {}`, 400, "malformed", "body"},
		{`{"user_ids":[1`, 400, "malformed", "body"},
		{many, 400, "too_many_ids", "user_ids"},
		{strings.Repeat(" ", 257<<10), 413, "too_large", "body"},
	} {
		answer := w.post(t, c.body)
		var said struct{ Error struct{ Code, Field string } }
		must.Do(t, json.Unmarshal(answer.Body.Bytes(), &said))
		if answer.Code != c.status || said.Error.Code != c.code || said.Error.Field != c.field {
			t.Errorf("%.80s is answered with %d %s", c.body, answer.Code, answer.Body)
		}
	}
	for _, header := range [][]string{{"Content-Type", "application/protobuf"}, {"Content-Encoding", "gzip"}} {
		if answer := w.post(t, `{"user_ids":[1]}`, header...); answer.Code != http.StatusUnsupportedMediaType {
			t.Errorf("%s: %d %s", header, answer.Code, answer.Body)
		}
	}
}

func TestABatchIsChargedByItsIds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	charged, wait, most, over := 0, time.Duration(0), 0, error(nil)
	w.server.SetCharge(func(_ *http.Request, ids int) (time.Duration, int, error) { charged += ids; return wait, most, over })
	for _, c := range []struct {
		wait   time.Duration
		most   int
		over   error
		status int
		after  string
	}{{0, 0, nil, 200, ""}, {1500 * time.Millisecond, 0, nil, 429, "2"}, {0, 2, nil, 400, ""},
		{0, 0, &tenants.OverQuota{Tenant: "acme", Quota: tenants.Reads, Limit: 3, After: 2500 * time.Millisecond}, 429, "3"}} {
		wait, most, over, charged = c.wait, c.most, c.over, 0
		a := w.post(t, `{"user_ids":[1,2,1,3]}`)
		status, _ := w.get(t, "/presence/batch?user_ids=1,2,1,3")
		if a.Code != c.status || status != c.status || charged != 6 || a.Header().Get("Retry-After") != c.after {
			t.Errorf("%+v: %d, %d, %d ids, %v %s", c, a.Code, status, charged, a.Header(), a.Body)
		}
	}
}

func TestOnlyTheUserAndAdministratorsSeeHowAHiddenUserIs(t *testing.T) {
	t.Parallel()
	for _, shown := range []bool{false, true} {
		w := newWorld(t, redistest.Mini(t))
		w.hiddenOffline = shown
		w.serve(w.view, w.durable)
		w.upTo(t, now())
		w.happen(t, arrives(11, 1, day), hides(11, 2, day+1), arrives(12, 3, day), hides(12, 4, day+1), arrives(13, 5, day))
		others := w.all(t)
		for name, c := range map[string]struct {
			viewer query.Viewer
			sees   bool
		}{
			"the user": {query.Viewer{User: 11}, true}, "an administrator": {query.Viewer{Admin: true}, true},
			"another user": {query.Viewer{User: 13}, false}, "nobody known": {query.Viewer{}, false},
		} {
			w.server.SetViewer(func(*http.Request) query.Viewer { return c.viewer })
			if !c.sees {
				if got := w.all(t); got != others {
					t.Errorf("%s reads\n%s\nnot\n%s", name, got, others)
				}
				w.want(t, "/presence/11/visibility", `{"user_id":"11","visibility":null}`)
				w.want(t, "/presence/99/visibility", `{"user_id":"99","visibility":null}`)
				continue
			}
			w.want(t, "/presence/11/visibility", `{"user_id":"11","visibility":"nobody"}`)
			w.want(t, "/presence/11", `{"user_id":"11","state":"online","last_seen_at":"2026-11-20T10:00:00.124Z",`+
				`"last_active_at":"2026-11-20T10:00:00.122Z","devices":["mobile"],"kinds":{"mobile":"online"},"since":"2026-11-20T10:00:00.124Z",`+
				`"version":"2","stale_since":null}`)
			w.want(t, "/presence/batch?user_ids=11,13", `{"11":"online","13":"online"}`)
			if c.viewer.Admin {
				w.want(t, "/presence/13/visibility", `{"user_id":"13","visibility":"everyone"}`)
				w.want(t, "/presence/99/visibility", `{"user_id":"99","visibility":"everyone"}`)
				continue
			}
			w.want(t, "/presence/12/visibility", `{"user_id":"12","visibility":null}`)
			hidden := map[bool]string{false: `null`, true: `"offline"`}[shown]
			w.want(t, "/presence/batch?user_ids=12", `{"12":`+hidden+`}`)
		}
	}
}

// all is what the endpoints but that of the visibility say of user 11.
func (w *world) all(t *testing.T) string {
	return w.whole(t, 11) + w.post(t, `{"user_ids":[11]}`).Body.String() + w.post(t, `{"user_ids":[11],"detail":true}`).Body.String()
}
