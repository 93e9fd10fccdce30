package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/channel"
	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/redisbus"
	"github.com/stillhere/stillhere/fanout/sqlitegraph"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// The people of the tests: friend follows owner, stranger follows other.
const (
	owner    = "43"
	friend   = "42"
	stranger = "44"
	other    = "46"
	nobody   = "45" // was never here
)

func reader(t *testing.T, user string) string {
	return token(t, time.Hour, "sub", user, "presence:read")
}

// ask is the answer to a GET with a token.
func ask(t *testing.T, host, path, token string) (int, http.Header, string) {
	t.Helper()
	return send(t, host, http.MethodGet, path, "", token)
}

func send(t *testing.T, host, method, path, body, token string) (int, http.Header, string) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), method, "http://"+host+path, strings.NewReader(body)))(t)
	r.Header.Set("Authorization", "Bearer "+token)
	answer := must.Get(http.DefaultClient.Do(r))(t)
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(t)
	return answer.StatusCode, answer.Header, strings.TrimSpace(string(text))
}

// beat says that users are here, and waits until one of them is seen to be.
func beatUntilSeen(t *testing.T, host, admin string, users ...string) {
	t.Helper()
	var beats []string
	for _, u := range users {
		beats = append(beats, `{"user_id":"`+u+`","device_id":1,"device_kind":"web"}`)
	}
	body := `{"beats":[` + strings.Join(beats, ",") + `]}`
	if status, _, text := send(t, host, http.MethodPost, "/presence/heartbeats", body, admin); status != http.StatusAccepted {
		t.Fatalf("beats are answered %d %s", status, text)
	}
	for _, u := range users {
		eventually(t, "user "+u+" is online", func() bool {
			_, _, text := ask(t, host, "/presence/users/"+url.PathEscape(u), admin)
			_, _, history := ask(t, host, "/presence/users/"+url.PathEscape(u)+"/history", admin)
			return strings.Contains(text, `"state":"online"`) && strings.Contains(history, "event_id")
		})
	}
}

// eventually asks again and again what must become true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !is(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}

func follow(t *testing.T, dir string, edges ...graph.Edge) {
	t.Helper()
	g := must.Get(sqlitegraph.Open(t.Context(), filepath.Join(dir, app.GraphFile)))(t)
	defer g.Close()
	must.Get(g.Add(t.Context(), edges))(t)
}

func TestAnotherUserReadsNothingAtAnyEndpointIfOnlyFollowersMayWatch(t *testing.T) {
	t.Parallel()
	for ids, people := range map[string][4]string{"int": {owner, friend, stranger, nobody},
		"text": {"ann@example.org", "bob/2", "6f9619ff-8b86-d011-b42d-00c04fc964ff", "nobody"}} {
		t.Run(ids, func(t *testing.T) {
			t.Parallel()
			strangersReadNothing(t, ids, people[0], people[1], people[2], people[3])
		})
	}
}

func strangersReadNothing(t *testing.T, ids, owner, follower, stranger, nobody string) {
	t.Helper()
	redis := sharedRedis(t)
	host, _ := guardedAs(t, func(d *app.Dev) {
		d.Kafka.IDs, d.RedisAddr, d.Auth.Requests = ids, redis.Addr(), 0
		d.MayWatch, d.MayReadHistory = app.WatchFollowers, app.HistoryWatchers
	})
	admin := token(t, time.Hour, "sub", "1", "presence:admin")
	of := func(user string) string { return "/presence/users/" + url.PathEscape(user) }
	for user, by := range map[string]string{owner: follower, other: stranger} {
		status, _, text := send(t, host, http.MethodPut, of(user)+"/followers/"+url.PathEscape(by), "", admin)
		if status != http.StatusNoContent {
			t.Fatalf("following: %d %s", status, text)
		}
	}
	beatUntilSeen(t, host, admin, owner)
	for _, who := range []struct {
		name, token, claim string
		may                bool
	}{
		{"the follower", reader(t, follower), "", true}, {"the user", reader(t, owner), "", true},
		{"an administrator", admin, "", true},
		{"a stranger", reader(t, stranger), "", false},
		{"a stranger who claims to follow", reader(t, stranger), "user_id=" + url.QueryEscape(follower), false},
	} {
		status, _, text := ask(t, host, of(owner)+"?"+who.claim, who.token)
		if (status == http.StatusOK) != who.may || who.may != strings.Contains(text, "online") {
			t.Errorf("%s asks for the user: %d %s", who.name, status, text)
		}
		_, header, text := ask(t, host, "/presence/batch?user_ids="+url.QueryEscape(owner)+"&"+who.claim, who.token)
		if who.may != strings.Contains(text, "online") ||
			!who.may && (text != `{"`+owner+`":null}` || header.Get("Stale-Since") != "") {
			t.Errorf("%s asks for a batch: %s %v", who.name, text, header)
		}
		status, _, text = ask(t, host, of(owner)+"/history?"+who.claim, who.token)
		if (status == http.StatusOK) != who.may || who.may != strings.Contains(text, "first_beat") {
			t.Errorf("%s asks for the history: %d %s", who.name, status, text)
		}
		first := firstOf(t, host, "?user_ids="+owner+"&"+who.claim, who.token)
		if seen := strings.Contains(first, `"state":"online"`); seen != who.may {
			t.Errorf("%s opens a stream: sees the user: %t", who.name, seen)
		}
	}
	// Refusals do not tell who exists.
	for _, path := range []string{"", "/history"} {
		_, _, here := ask(t, host, of(owner)+path, reader(t, stranger))
		_, _, never := ask(t, host, of(nobody)+path, reader(t, stranger))
		if here != never {
			t.Errorf("%q of who is here: %s, of who never was: %s", path, here, never)
		}
	}
	if ids == "text" {
		return // names may have commas, and deliveries name users by id
	}
	// Of several, those who may be seen are told.
	_, _, text := ask(t, host, "/presence/batch?user_ids="+owner+","+stranger+","+nobody, reader(t, stranger))
	if text != fmt.Sprintf(`{%q:null,%q:"offline",%q:null}`, owner, stranger, nobody) {
		t.Errorf("a batch of some: %s", text)
	}
	// There is one tenant, to which nobody is bound.
	eventually(t, "every partition is counted", func() bool {
		_, _, counts := ask(t, host, "/presence/count", reader(t, stranger))
		return strings.Contains(counts, `"missing_partitions":[]`)
	})
	deliveriesReachFollowersOnly(t, host, redis.Addr())
}

// firstOf is what a stream says first of the users that its query names.
func firstOf(t *testing.T, host, query, token string) string {
	t.Helper()
	conn := dial(t, host, query+"&access_token="+token)
	defer func() { _ = conn.CloseNow() }()
	_, ids, _ := strings.Cut(query, "user_ids=")
	id, _, _ := strings.Cut(ids, "&")
	return subscribed(t, conn, id)
}

func dial(t *testing.T, host, query string) *websocket.Conn {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "ws://"+host+"/presence/stream"+query, nil) //nolint:bodyclose // a socket has none
	must.Do(t, err)
	return conn
}

// deliveriesReachFollowersOnly publishes deliveries that name a follower and a stranger,
// as one does that was expanded before the stranger left.
func deliveriesReachFollowersOnly(t *testing.T, host, redis string) {
	t.Helper()
	bus, err := redisbus.Open(redisbus.Options{Addr: redis}, fanout.DefaultConfig(), fanout.NewMetrics(nil), nil)
	must.Do(t, err)
	defer func() { _ = bus.Close() }()
	sockets := map[string]*websocket.Conn{}
	for _, who := range []string{friend, stranger} {
		conn := dial(t, host, "?deliveries=true&access_token="+reader(t, who))
		defer func() { _ = conn.CloseNow() }()
		sockets[who] = conn
		next(t, conn, "deliveries")
	}
	ctx, stop := context.WithCancel(t.Context())
	published := make(chan error, 1)
	go func() { // again and again, since what comes before the server listens is lost
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for version := schemas.Version(1); ; version++ {
			for _, about := range []schemas.UserID{43, 46} {
				d := &schemas.Delivery{Recipients: []schemas.UserID{42, 44}, Transition: &schemas.Transition{User: about, From: schemas.Offline,
					To: schemas.Online, At: schemas.MillisOf(time.Now()), Cause: schemas.FirstBeat, Visibility: schemas.Everyone, Version: version}}
				if err := bus.PublishDelivery(ctx, d); err != nil && ctx.Err() == nil {
					published <- err
					return
				}
			}
			select {
			case <-ctx.Done():
				published <- nil
				return
			case <-tick.C:
			}
		}
	}()
	for who, about := range map[string]string{friend: owner, stranger: other} {
		for range 5 {
			if got := next(t, sockets[who], "delivery"); got != about {
				t.Errorf("%s is told of %s, whom only the other follows", who, got)
			}
		}
	}
	stop()
	if err := <-published; err != nil {
		t.Error(err)
	}
}

// next reads up to the next message of a type and tells of whom it is.
func next(t *testing.T, conn *websocket.Conn, kind string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		_, message, err := conn.Read(ctx)
		must.Do(t, err)
		var m struct {
			Type string
			User struct {
				ID string `json:"user_id"`
			}
		}
		must.Do(t, json.Unmarshal(message, &m))
		if m.Type == kind {
			return m.User.ID
		}
	}
}

// runChannel runs a channel until the test ends.
func runChannel(t *testing.T, run app.ChannelRun) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- app.RunChannel(ctx, run, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestAWebhookIsNotGivenAFollowerWhoLeftAfterTheExpansion(t *testing.T) {
	t.Parallel()
	at, dir := guardedAt(t, func(d *app.Dev) {
		d.MayWatch, d.Auth.Requests = app.WatchFollowers, 0
		d.Expand.Mode, d.Expand.Everyone = expand.All, true
	})
	follow(t, dir, graph.Edge{User: 43, Follower: 42}, graph.Edge{User: 43, Follower: 44})
	file := app.Store{SQLite: filepath.Join(dir, app.GraphFile)}
	store := must.Get(sqlitegraph.Open(t.Context(), file.SQLite))(t)
	t.Cleanup(store.Close)
	tries := make(chan string, 10)
	first := true
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct{ Recipients []string }
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		if first { // the deliveries of one user come one at a time
			first = false
			if _, err := store.Remove(r.Context(), []graph.Edge{{User: 43, Follower: 44}}); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		tries <- strings.Join(m.Recipients, " ")
	}))
	t.Cleanup(receiver.Close)
	hook, err := channel.NewWebhook(channel.WebhookConfig{Private: true, URL: receiver.URL, Source: "/stillhere"}, slog.New(slog.DiscardHandler))
	must.Do(t, err)
	run := app.ChannelRun{Name: "webhook", Instance: "one", Kafka: app.Kafka{Brokers: []string{at.Kafka}}, Config: app.DefaultDeliveries(), Channel: hook,
		FromStart: true, MayWatch: app.WatchFollowers, Graph: file}
	runChannel(t, run)
	beatUntilSeen(t, at.HTTP, token(t, time.Hour, "sub", "1", "presence:admin"), owner)
	for i, want := range []string{"42 44", "42"} {
		select {
		case got := <-tries:
			if got != want {
				t.Errorf("try %d names %q, want %q", i+1, got, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("try %d does not come", i+1)
		}
	}
}
