package query_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/schemas"
)

func TestBadInputIsAnsweredByNamingTheField(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	const idRange = "must be between 1 and 9223372036854775807"
	many := strings.TrimSuffix(strings.Repeat("1,", 1001), ",")
	for _, c := range []struct{ path, code, field, reason string }{
		{"/presence/batch", "invalid_argument", "user_ids", "must name at least one user"},
		{"/presence/batch?user_ids=", "invalid_argument", "user_ids", "must name at least one user"},
		{"/presence/batch?user_ids=0", "invalid_user_id", "user_ids[0]", idRange},
		{"/presence/batch?user_ids=1,-1", "invalid_user_id", "user_ids[1]", idRange},
		{"/presence/batch?user_ids=1,2,9223372036854775808", "invalid_user_id", "user_ids[2]", idRange},
		{"/presence/batch?user_ids=abc", "invalid_user_id", "user_ids[0]", idRange},
		{"/presence/batch?user_ids=1,,2", "invalid_user_id", "user_ids[1]", idRange},
		{"/presence/batch?user_ids=1,", "invalid_user_id", "user_ids[1]", idRange},
		{"/presence/batch?user_ids=1,%202", "invalid_user_id", "user_ids[1]", idRange},
		{"/presence/batch?user_ids=1.0", "invalid_user_id", "user_ids[0]", idRange},
		{"/presence/batch?user_ids=" + many, "too_many_ids", "user_ids", "must be at most 1000 ids, are 1001"},
		{"/presence/batch?user_id=1", "unknown_parameter", "user_id", "is not a parameter of this request, which takes user_ids, unsure"},
		{"/presence/batch?user_ids=1&unsure=yes", "invalid_argument", "unsure", "must be mark, once, or left out"},
		{"/presence/0", "invalid_user_id", "user_id", idRange},
		{"/presence/-1", "invalid_user_id", "user_id", idRange},
		{"/presence/9223372036854775808", "invalid_user_id", "user_id", idRange},
		{"/presence/abc", "invalid_user_id", "user_id", idRange},
		{"/presence/%00", "invalid_user_id", "user_id", idRange},
		{"/presence/1?verbose=1", "unknown_parameter", "verbose", "is not a parameter of this request, which takes devices"},
		{"/presence/abc/history", "invalid_user_id", "user_id", idRange},
		{"/presence/1/history?limit=0", "invalid_argument", "limit", "must be between 1 and 1000"},
		{"/presence/1/history?limit=1001", "invalid_argument", "limit", "must be between 1 and 1000"},
		{"/presence/1/history?limit=ten", "invalid_argument", "limit", "must be between 1 and 1000"},
		{"/presence/1/history?limit=1&limit=2", "invalid_argument", "limit", "must be given once"},
		{"/presence/1/history?from=yesterday", "invalid_argument", "from", ""},
		{"/presence/1/history?from=-1", "invalid_argument", "from", ""},
		{"/presence/1/history?to=253402300800000", "invalid_argument", "to", ""},
		{"/presence/1/history?from=2026-11-20", "invalid_argument", "from", ""},
		{"/presence/1/history?cursor=", "invalid_argument", "cursor", ""},
		{"/presence/1/history?cursor=MTIz", "invalid_argument", "cursor", ""},
		{"/presence/1/history?cursor=1.0", "invalid_argument", "cursor", ""},
		{"/presence/1/history?cursor=%ff", "invalid_argument", "cursor", ""},
		{"/presence/1/history?form=1", "unknown_parameter", "form", "is not a parameter of this request, which takes from, to, limit, cursor"},
	} {
		status, body := w.get(t, c.path)
		var answer struct {
			Error struct{ Code, Message, Field string }
		}
		must.Do(t, json.Unmarshal([]byte(body), &answer))
		got := answer.Error
		if status != http.StatusBadRequest || got.Code != c.code || got.Field != c.field ||
			!strings.HasPrefix(got.Message, c.field+": "+c.reason) {
			t.Errorf("%.80s is answered with %d %s", c.path, status, body)
		}
	}
}

func TestABatchAnswersEveryUserOnceInTheOrderAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	idle := arrives(2, 2, day)
	idle.To, idle.Cause = schemas.Away, schemas.Idle
	w.happen(t, arrives(1, 1, day), idle, arrives(3, 3, day), leaves(3, 4, day+1), hides(4, 5, day), arrives(9223372036854775807, 6, day))
	const want = `{"2":"away","1":"online","9223372036854775807":"online","4":null,"5":"offline","3":"offline"}`
	w.want(t, "/presence/batch?user_ids=2,1,2,9223372036854775807,4,5,3,1", want)
	w.want(t, "/presence/batch?user_ids=2,1&user_ids=2,9223372036854775807,4&user_ids=5,3,1", want)
}

func TestAThousandIdsAreAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	path := "/presence/batch?user_ids=1"
	for id := 2; id <= 1000; id++ {
		path += fmt.Sprintf(",%d", id)
	}
	status, body := w.get(t, path)
	if status != http.StatusOK || strings.Count(body, `"offline"`) != 1000 {
		t.Errorf("%d %.100s", status, body)
	}
}

func TestAUserIsReturnedWithExactTimesAndAVersionAsText(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	w.upTo(t, now())
	w.happen(t, arrives(1, 9223372036854775807, day))
	w.want(t, "/presence/1", `{"user_id":"1","state":"online","last_seen_at":"2026-11-20T10:00:00.122Z",`+
		`"last_active_at":"2026-11-20T10:00:00.121Z","devices":["mobile"],"kinds":{"mobile":"online"},"since":"2026-11-20T10:00:00.123Z",`+
		`"version":"9223372036854775807","stale_since":null}`)
	w.want(t, "/presence/2", `{"user_id":"2","state":"offline","last_seen_at":null,"last_active_at":null,"devices":[],"kinds":{},"since":null,`+
		`"version":"0","stale_since":null}`)
}

func TestAHistoryIsNewestFirstWithEverythingThatWasRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	comes, goes := arrives(1, 1, day), leaves(1, 2, day+45_000)
	w.happen(t, comes, goes)
	newer := `{"event_id":"` + goes.EventID().String() + `","from":"online","to":"offline","at":"2026-11-20T10:00:45.123Z",` +
		`"last_seen_at":"2026-11-20T10:00:45.122Z","last_active_at":"2026-11-20T10:00:45.121Z","cause":"silent","device_id":null,` +
		`"devices":[],"kinds":{},"version":"2","policy_id":"p-1","left_out":0}`
	older := `{"event_id":"` + comes.EventID().String() + `","from":"offline","to":"online","at":"2026-11-20T10:00:00.123Z",` +
		`"last_seen_at":"2026-11-20T10:00:00.122Z","last_active_at":"2026-11-20T10:00:00.121Z","cause":"first_beat","device_id":7,` +
		`"devices":["mobile"],"kinds":{"mobile":"online"},"version":"1","policy_id":"p-1","left_out":0}`
	both := `{"changes":[` + newer + `,` + older + `],"next_cursor":null}`
	w.want(t, "/presence/1/history", both)
	w.want(t, "/presence/1/history?limit=2&from=0", both)
	for _, bounds := range []string{
		"from=2026-11-20T10:00:00.124Z", "from=1795168800124", "from=2026-11-20T11:00:00.124%2B01:00",
		"from=2026-11-20T11:00:00.124+01:00", "from=2026-11-20T10:00:01Z&to=2026-11-20T10:00:46Z",
	} {
		w.want(t, "/presence/1/history?"+bounds, `{"changes":[`+newer+`],"next_cursor":null}`)
	}
	w.want(t, "/presence/1/history?to=2026-11-20T10:00:45.123Z", `{"changes":[`+older+`],"next_cursor":null}`)
	const none = `{"changes":[],"next_cursor":null}`
	w.want(t, "/presence/2/history", none)
	for _, bounds := range []string{"to=0", "from=2&to=2", "from=2026-11-20T10:00:01Z&to=2026-11-20T10:00:00Z", "to=0001-01-01T00:00:00Z", "cursor=1.9999999999999999999"} {
		w.want(t, "/presence/1/history?"+bounds, none)
	}
	w.want(t, "/presence/1/history?from=0001-01-01T00:00:00Z&cursor=999999999999999.1", both)

	_, body := w.get(t, "/presence/1/history?limit=1")
	var first struct {
		NextCursor string `json:"next_cursor"`
	}
	must.Do(t, json.Unmarshal([]byte(body), &first))
	w.want(t, "/presence/1/history?limit=1&cursor="+first.NextCursor, `{"changes":[`+older+`],"next_cursor":null}`)
}

func TestAHiddenUserLooksTheSameWhateverItDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	w.upTo(t, now())
	w.happen(t, arrives(1, 1, day), hides(1, 2, day+1))
	paths := []string{"/presence/batch?user_ids=1", "/presence/1", "/presence/1/history", "/presence/1/history?limit=1"}
	before := map[string]string{}
	for _, path := range paths {
		_, before[path] = w.get(t, path)
	}
	if want := `{"user_id":"1","state":null,"last_seen_at":null,"last_active_at":null,"devices":null,"kinds":null,"since":null,"version":"2",` +
		`"stale_since":null}` + "\n"; before["/presence/1"] != want {
		t.Errorf("a hidden user is told as %s", before["/presence/1"])
	}
	for i, step := range []*schemas.Transition{
		hidden(leaves(1, 3, day+50)), hidden(arrives(1, 4, day+60)), hidden(leaves(1, 5, day+90)),
	} {
		w.happen(t, step)
		for _, path := range paths {
			if _, after := w.get(t, path); after != before[path] {
				t.Errorf("step %d: %s changed from %s to %s", i, path, before[path], after)
			}
		}
	}
}

func TestTheHistoryOfAHiddenUserIsThatOfOneNeverSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	w.happen(t, arrives(1, 1, day), leaves(1, 2, day+1), arrives(1, 3, day+2))
	_, body := w.get(t, "/presence/1/history?limit=1")
	var first struct {
		NextCursor string `json:"next_cursor"`
	}
	must.Do(t, json.Unmarshal([]byte(body), &first))
	w.happen(t, hides(1, 4, day+3))
	for _, parameters := range []string{"", "?limit=1", "?from=0", "?to=" + fmt.Sprint(int64(day+3)), "?cursor=" + first.NextCursor, "?limit=0", "?cursor=x"} {
		status, body := w.get(t, "/presence/1/history"+parameters)
		neverStatus, neverBody := w.get(t, "/presence/2/history"+parameters)
		if status != neverStatus || body != neverBody {
			t.Errorf("%s: %d %s, never seen: %d %s", parameters, status, body, neverStatus, neverBody)
		}
	}
}

func TestOtherMethodsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	for _, path := range []string{"/presence/batch", "/presence/1", "/presence/1/history"} {
		_, pattern := w.Handler(&http.Request{Method: http.MethodDelete, URL: mustURL(t, path), Host: "x"})
		if pattern != "" {
			t.Errorf("DELETE %s goes to %s", path, pattern)
		}
	}
}
