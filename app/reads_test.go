package app_test

import (
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/sqlitegraph"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestAHistoryIsForTheUserAndAdministratorsUnlessSetOtherwise(t *testing.T) {
	t.Parallel()
	host, _ := guardedAs(t, func(d *app.Dev) { d.Auth.Requests = 0 })
	admin := token(t, time.Hour, "sub", "1", "presence:admin")
	beatUntilSeen(t, host, admin, owner)
	for token, want := range map[string]int{reader(t, owner): 200, admin: 200, reader(t, stranger): 403,
		token(t, time.Hour, "gateway_id", "gw-1", "presence:read"): 403} {
		if status, _, text := ask(t, host, "/presence/"+owner+"/history", token); status != want {
			t.Errorf("answered %d, want %d: %s", status, want, text)
		}
		if status, _, text := ask(t, host, "/presence/"+owner, token); status != http.StatusOK {
			t.Errorf("whom everybody may watch: %d %s", status, text)
		}
	}
}

// subscribed is the answer to a subscription.
func subscribed(t *testing.T, conn *websocket.Conn, user string) string {
	t.Helper()
	must.Do(t, conn.Write(t.Context(), websocket.MessageText, []byte(`{"type":"subscribe","user_ids":["`+user+`"]}`)))
	for {
		_, message, err := conn.Read(t.Context())
		must.Do(t, err)
		if text := string(message); strings.Contains(text, `"snapshot"`) || strings.Contains(text, `"error"`) {
			return text
		}
	}
}

func TestASocketShowsWhomTheStreamShowsAlsoToAdministrators(t *testing.T) {
	t.Parallel()
	host, dir := guardedAs(t, func(d *app.Dev) { d.MayWatch, d.Auth.Requests = app.WatchFollowers, 0 })
	follow(t, dir, graph.Edge{User: 43, Follower: 42})
	beatUntilSeen(t, host, token(t, time.Hour, "sub", "1", "presence:admin"), owner)
	const scopes = "presence:beat presence:read"
	for _, who := range []struct {
		name, token, path string
		may               bool
	}{
		{"the follower", token(t, time.Hour, "sub", friend, scopes), "connect?device_id=1", true},
		{"a stranger", token(t, time.Hour, "sub", stranger, scopes), "connect?device_id=1", false},
		{"an administrator", token(t, time.Hour, "sub", stranger, "presence:admin"), "connect?device_id=1", true},
		{"a gateway, on the stream", token(t, time.Hour, "gateway_id", "gw-1", scopes), "stream?user_id=" + friend, false},
	} {
		conn, _, err := websocket.Dial(t.Context(), "ws://"+host+"/presence/"+who.path+"&access_token="+who.token, nil) //nolint:bodyclose // a socket has none
		must.Do(t, err)
		defer func() { _ = conn.CloseNow() }()
		if text := subscribed(t, conn, owner); who.may != strings.Contains(text, `"state":"online"`) || who.may == strings.Contains(text, "not_allowed") {
			t.Errorf("%s is told %s", who.name, text)
		}
	}
}

func TestAFormerFollowerReceivesNothingWhenItAsksAgainOnTheSameStream(t *testing.T) {
	t.Parallel()
	host, dir := guardedAs(t, func(d *app.Dev) { d.MayWatch, d.Auth.Requests = app.WatchFollowers, 0 })
	follow(t, dir, graph.Edge{User: 43, Follower: 42}, graph.Edge{User: 46, Follower: 42})
	beatUntilSeen(t, host, token(t, time.Hour, "sub", "1", "presence:admin"), owner)
	conn := dial(t, host, "?access_token="+reader(t, friend))
	defer func() { _ = conn.CloseNow() }()
	if text := subscribed(t, conn, owner); !strings.Contains(text, `"state":"online"`) {
		t.Fatalf("a follower is told %s", text)
	}
	store := must.Get(sqlitegraph.Open(t.Context(), filepath.Join(dir, app.GraphFile)))(t)
	defer store.Close()
	must.Get(store.Remove(t.Context(), []graph.Edge{{User: 43, Follower: 42}}))(t)
	if status, _, text := ask(t, host, "/presence/"+owner, reader(t, friend)); status != http.StatusForbidden {
		t.Errorf("who follows no longer asks for the user: %d %s", status, text)
	}
	if text := subscribed(t, conn, owner); !strings.Contains(text, "not_allowed") {
		t.Errorf("who follows no longer, and watches still, is told %s", text)
	}
	if text := subscribed(t, conn, other); !strings.Contains(text, "snapshot") {
		t.Errorf("of whom it follows still it is told %s", text)
	}
}

func TestTheUserAndAdministratorsReadTheTruthOfAHiddenUserAndOthersNothing(t *testing.T) {
	t.Parallel()
	host, _ := guardedAs(t, func(d *app.Dev) { d.Auth.Requests = 0 })
	admin := token(t, time.Hour, "sub", "1", "presence:admin")
	beatUntilSeen(t, host, admin, owner)
	if status, _, text := send(t, host, http.MethodPut, "/presence/"+owner+"/visibility", `{"visibility":"nobody"}`, admin); status != http.StatusOK {
		t.Fatal(status, text)
	}
	eventually(t, "the user is hidden for others", func() bool {
		_, _, text := ask(t, host, "/presence/batch?user_ids="+owner, reader(t, friend))
		return text == `{"43":null}`
	})
	for name, c := range map[string]struct {
		token, visibility, state string
	}{
		"the user": {reader(t, owner), `"nobody"`, `"online"`}, "an administrator": {admin, `"nobody"`, `"online"`},
		"another user": {reader(t, stranger), `null`, `null`},
	} {
		for path, want := range map[string]string{
			"/presence/" + owner + "/visibility": `{"user_id":"43","visibility":` + c.visibility + `}`,
			"/presence/batch?user_ids=" + owner:  `{"43":` + c.state + `}`,
			"/presence/" + owner:                 `{"user_id":"43","state":` + c.state + `,`,
		} {
			if _, _, text := ask(t, host, path, c.token); !strings.HasPrefix(text, want) {
				t.Errorf("%s reads %s: %s, want %s", name, path, text, want)
			}
		}
		if _, _, text := send(t, host, http.MethodPost, "/presence/batch", `{"user_ids":[43],"detail":true}`, c.token); !strings.HasPrefix(text, `{"users":[{"user_id":"43","state":`+c.state+`,`) {
			t.Errorf("%s reads with detail: %s", name, text)
		}
	}
}

func TestAnEventSourceMayNameAsManyUsersAsItMayWatch(t *testing.T) {
	t.Parallel()
	const users = 3000
	host, _ := guardedAs(t, func(d *app.Dev) { d.MaxSubscriptions, d.Auth.Requests = users, 0 })
	var ids []string
	for i := range users {
		ids = append(ids, strconv.Itoa(9_000_000_000_000_000_000+i))
	}
	for count, want := range map[int]int{users: http.StatusOK, users + 1: http.StatusBadRequest} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/presence/stream?user_ids="+strings.Join(append(ids, "1")[:count], ","), nil)
		must.Do(t, err)
		r.Header.Set("Authorization", "Bearer "+reader(t, owner))
		answer := must.Get(http.DefaultClient.Do(r))(t)
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("a stream of %d users is answered %d, want %d", count, answer.StatusCode, want)
		}
	}
}

func TestEvery50IdsOfABatchCountAsARequest(t *testing.T) {
	t.Parallel()
	host, _ := guardedAs(t, func(d *app.Dev) { d.Auth.Requests = 4 }) // bursts of 20
	many := `{"user_ids":[` + strings.Join(slices.Collect(func(yield func(string) bool) {
		for id := range 1000 {
			if !yield(strconv.Itoa(id + 1)) {
				return
			}
		}
	}), ",") + `]}`
	limited := reader(t, "77")
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if status, header, text := send(t, host, http.MethodPost, "/presence/batch", many, limited); status != want ||
			(want == http.StatusTooManyRequests) != (header.Get("Retry-After") != "") {
			t.Fatalf("%d, want %d: %v %.200s", status, want, header, text)
		}
	}
}

func TestTheUserAndAdministratorsReadAnOverrideAndOthersOnlyWhatItShows(t *testing.T) {
	t.Parallel()
	host, _ := guardedAs(t, func(d *app.Dev) { d.Auth.Requests = 0 })
	admin := token(t, time.Hour, "sub", "1", "presence:admin")
	beatUntilSeen(t, host, admin, owner)
	for _, c := range []struct{ asked, others, override, visibility string }{
		{`{"state":"away","until":"2099-12-31T17:00:00.000Z","note":"à table"}`, `"away"`, `,"automatic":"online"`, "everyone"},
		{`{"state":"invisible"}`, `null`, "", "everyone"},
	} {
		if status, _, text := send(t, host, http.MethodPut, "/presence/"+owner+"/override", c.asked, admin); status != http.StatusOK {
			t.Fatal(status, text)
		}
		eventually(t, "others see "+c.others, func() bool {
			_, _, text := ask(t, host, "/presence/batch?user_ids="+owner, reader(t, friend))
			return text == `{"43":`+c.others+`}`
		})
		for who, want := range map[string][2]string{
			reader(t, owner):    {`{"user_id":"43","override":` + c.asked + c.override + `}`, `{"user_id":"43","visibility":"` + c.visibility + `"}`},
			admin:               {`{"user_id":"43","override":` + c.asked + c.override + `}`, `{"user_id":"43","visibility":"` + c.visibility + `"}`},
			reader(t, stranger): {`{"user_id":"43","override":null}`, `{"user_id":"43","visibility":null}`},
		} {
			for i, path := range []string{"override", "visibility"} {
				eventually(t, "the "+path+" is "+want[i], func() bool {
					_, _, text := ask(t, host, "/presence/"+owner+"/"+path, who)
					return strings.TrimSpace(text) == want[i]
				})
			}
		}
	}
}

func TestOthersReadLastSeenAsTheUserAndThePolicyShowIt(t *testing.T) {
	t.Parallel()
	host, _ := guardedAs(t, func(d *app.Dev) {
		d.Auth.Requests, d.MayReadHistory, d.Policy.ForbidHiding = 0, app.HistoryWatchers, true
	})
	admin := token(t, time.Hour, "sub", "1", "presence:admin")
	own := token(t, time.Hour, "sub", owner, "presence:beat presence:read")
	beatUntilSeen(t, host, admin, owner)
	set := func(body string) (int, http.Header, string) {
		return send(t, host, http.MethodPut, "/presence/"+owner+"/audience", body, own)
	}
	if status, _, text := set(`{"base":"nobody"}`); status != http.StatusForbidden ||
		!strings.Contains(text, `"field":"base"`) || !strings.Contains(text, "forbid_hiding") {
		t.Errorf("who may not hide is answered %d %s", status, text)
	}
	for _, c := range []struct{ shown, others, audience string }{
		{"coarse", `"last_seen":"recently"`, `{"user_id":"43","base":"everyone","last_seen":"coarse"}`},
		{"never", `"last_seen":"hidden"`, `{"user_id":"43","base":"everyone","last_seen":"never"}`},
		{"exact", `"last_seen_at":"2`, `{"user_id":"43","base":"everyone","last_seen":"exact"}`},
	} {
		if status, _, text := set(`{"last_seen":"` + c.shown + `"}`); status != http.StatusOK {
			t.Fatal(status, text)
		}
		eventually(t, "others read "+c.others, func() bool {
			_, _, text := ask(t, host, "/presence/"+owner, reader(t, friend))
			return strings.Contains(text, c.others) && strings.Contains(text, `"last_seen_at":null`) == (c.shown != "exact")
		})
		_, _, history := ask(t, host, "/presence/"+owner+"/history", reader(t, friend))
		if _, _, whole := ask(t, host, "/presence/"+owner+"/history", own); (history == whole) != (c.shown == "exact") || strings.Contains(whole, `"changes":[]`) {
			t.Errorf("%s: others read the history %s, the user %s", c.shown, history, whole)
		}
		for who, want := range map[string]string{own: c.audience, admin: c.audience, reader(t, stranger): `{"user_id":"43","base":null,"last_seen":null}`} {
			if _, _, text := ask(t, host, "/presence/"+owner+"/audience", who); text != want {
				t.Errorf("%s: the audience is %s, want %s", c.shown, text, want)
			}
		}
		for _, who := range []string{own, admin} {
			if _, _, text := ask(t, host, "/presence/"+owner, who); !strings.Contains(text, `"last_seen_at":"2`) || strings.Contains(text, `"last_seen":`) {
				t.Errorf("%s: the user reads %s", c.shown, text)
			}
		}
	}
}
