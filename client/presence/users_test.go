package presence_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/presence"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestUsersAreReadByNameWithinTheTenant(t *testing.T) {
	t.Parallel()
	const ann = `{"user_id":"ann, née/7","tenant":"acme","state":"away","devices":["web"],"version":"7"}`
	answers := map[string]string{
		`POST /presence/batch?tenant=acme {"user_ids":["ann, née/7","bob"]}`:                                                 `{"ann, née/7":"away","bob":null}`,
		`POST /presence/batch?tenant=acme&unsure=mark {"user_ids":["bob"]}`:                                                  `{"bob":"unsure"}`,
		`POST /presence/batch?tenant=acme {"user_ids":["ann, née/7"],"detail":true}`:                                         `{"users":[` + ann + `]}`,
		`GET /presence/users/ann%2C%20n%C3%A9e%2F7?tenant=acme `:                                                             ann,
		`GET /presence/users/ann%2C%20n%C3%A9e%2F7/audience?tenant=acme&user_id=ann%2C+n%C3%A9e%2F7 `:                        `{"base":"everyone","last_seen":"coarse"}`,
		`GET /presence/users/ann%2C%20n%C3%A9e%2F7/audience/deny?limit=100&tenant=acme&user_id=ann%2C+n%C3%A9e%2F7 `:         `{"user_id":"ann, née/7","deny":[{"user_id":"bob","tenant":"acme","since":"2026-11-20T10:00:00.000Z"}],"next":"x"}`,
		`GET /presence/users/ann%2C%20n%C3%A9e%2F7/audience/deny?after=x&limit=100&tenant=acme&user_id=ann%2C+n%C3%A9e%2F7 `: `{"user_id":"ann, née/7","deny":[{"user_id":"cid","since":"2026-11-20T10:00:00.000Z"}],"next":null}`,
		`GET /presence/users/ann%2C%20n%C3%A9e%2F7/history?limit=100&tenant=acme `:                                           `{"changes":[{"to":"away"}],"next_cursor":"x"}`,
		`GET /presence/users/ann%2C%20n%C3%A9e%2F7/history?cursor=x&limit=100&tenant=acme `:                                  `{"changes":[{"to":"online"}],"next_cursor":null}`,
		`POST /presence/changes?tenant=acme {"user_ids":["ann, née/7"]}`:                                                     `{"resync":true,"reason":"start","users":[` + ann + `],"cursor":"c"}`,
		`POST /presence/changes?tenant=acme {"user_ids":["ann, née/7"],"since":"c"}`:                                         `{"resync":false,"changes":[` + ann + `],"cursor":"d","more":true}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked := fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body)
		answer, known := answers[asked]
		if !known {
			t.Errorf("asked %s", asked)
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	c := must.Get(presence.New(presence.Config{HTTP: client.HTTP{URL: server.URL}}))(t)
	c = c.Tenant("acme")
	const user = "ann, née/7"
	states, err := c.Batch(t.Context(), user, "bob", user)
	if err != nil || len(states.Of) != 2 || states.Of[user] != presence.Away || states.Of["bob"] != presence.Hidden {
		t.Errorf("the states are %v, %v", states, err)
	}
	marks := must.Get(presence.New(presence.Config{HTTP: client.HTTP{URL: server.URL}, MarkUnsure: true}))(t)
	if marked, err := marks.Tenant("acme").Batch(t.Context(), "bob"); err != nil || marked.Of["bob"] != presence.Unsure {
		t.Errorf("the marked states are %v, %v", marked, err)
	}
	is := func(what string, p schemas.User) {
		if p.UserID != user || p.Tenant != "acme" || p.State == nil || *p.State != presence.Away || p.Version != "7" {
			t.Errorf("%s: %+v", what, p)
		}
	}
	users, err := c.Users(t.Context(), user)
	if err != nil || len(users) != 1 {
		t.Fatal(users, err)
	}
	is("in a list", users[0])
	one := must.Get(c.One(t.Context(), user))(t)
	is("alone", one)
	if a, err := c.Audience(t.Context(), user); err != nil || a != (presence.Audience{Base: presence.Everyone, LastSeen: presence.Coarse}) {
		t.Error(a, err)
	}
	var denied []presence.Denial
	for denial, err := range c.Denied(t.Context(), user) {
		must.Do(t, err)
		denied = append(denied, denial)
	}
	if at := schemas.Millis(1_795_168_800_000); !slices.Equal(denied, []presence.Denial{{UserID: "bob", Since: at}, {UserID: "cid", Since: at}}) {
		t.Errorf("the denied are %+v", denied)
	}
	var history []string
	for change, err := range c.History(t.Context(), user, presence.Range{}) {
		must.Do(t, err)
		history = append(history, change.To)
	}
	if !slices.Equal(history, []string{"away", "online"}) {
		t.Errorf("the history is %v", history)
	}
	first, err := c.Changes(t.Context(), "", user)
	if err != nil || !first.Resync || first.Reason != "start" || first.Cursor != "c" || len(first.Users) != 1 {
		t.Fatalf("%+v, %v", first, err)
	}
	is("in a resync", first.Users[0])
	next, err := c.Changes(t.Context(), first.Cursor, user)
	if err != nil || next.Resync || !next.More || next.Cursor != "d" || len(next.Changes) != 1 {
		t.Fatalf("%+v, %v", next, err)
	}
	is("changed", next.Changes[0])
}
