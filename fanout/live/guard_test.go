package live_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/live"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

func TestARequestForAUserWhoMayNotBeWatchedIsRefusedAsAUnit(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t))
	strangers := &schemas.FieldError{Code: "not_allowed", Field: "user_ids[1]", Reason: "you may not watch this user"}
	server := must.Get(live.New(fanout.DefaultConfig(), live.Dependencies{
		Bus: g.bus.Bus, Recent: g.bus.Recent, View: g.view.Read, Metrics: g.metrics,
		Viewer: func(r *http.Request) schemas.UserID { return schemas.UserID(len(r.URL.Query().Get("friend"))) },
		MayWatch: func(_ context.Context, viewer schemas.UserID, users []schemas.UserID) error {
			for _, user := range users {
				switch {
				case user == 13:
					return errors.New("the graph is away")
				case viewer != 1 && user > 10:
					return strangers
				}
			}
			return nil
		},
	}))(t)
	front := g.front(server)
	stranger, friend := g.dialAt(front+"/"), g.dialAt(front+"/?friend=x")
	stranger.send(`{"type":"subscribe","user_ids":["1","11"]}`)
	if m := stranger.expect(watch.Error); m.Problem.Code != "not_allowed" || m.Problem.Field != "user_ids[1]" {
		t.Errorf("%+v", m.Problem)
	}
	if n := valueOf(g.metrics.Subscriptions); n != 0 {
		t.Errorf("%v subscriptions of a request that was refused", n)
	}
	stranger.watch(1)
	friend.watch(1, 11)
	friend.send(`{"type":"subscribe","user_ids":["13"]}`)
	if m := friend.expect(watch.Error); m.Problem.Code != "unavailable" {
		t.Errorf("%+v", m.Problem)
	}
	// Server-Sent Events have no second chance: the stream ends.
	answer := must.Get(http.Get(front + "/?user_ids=11"))(t)
	defer answer.Body.Close()
	var text strings.Builder
	if err := answer.Write(&text); err != nil || !strings.Contains(text.String(), "not_allowed") || !strings.Contains(text.String(), "retry: ") {
		t.Errorf("%s %v", text.String(), err)
	}
	// And in the socket of another, whose owner is known.
	heard := make(chan watch.Message, 10)
	handle, end := server.Open(1, schemas.Name{}, false, func(text []byte) error {
		var m watch.Message
		err := json.Unmarshal(text, &m)
		heard <- m
		return err
	})
	defer end()
	handle([]byte(`{"type":"subscribe","user_ids":["12"]}`))
	if m := <-heard; m.Type != watch.Snapshot {
		t.Errorf("%+v", m)
	}
}

func TestRefusedUsersOfARequestGetTheSameErrorWhetherHiddenOrUnknown(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t))
	hidden := &person{id: 12}
	g.happen(hidden.becomes(schemas.Online), hidden.hides(true), (&person{id: 11}).becomes(schemas.Online), (&person{id: 1}).becomes(schemas.Online))
	server := must.Get(live.New(fanout.DefaultConfig(), live.Dependencies{
		Bus: g.bus.Bus, Recent: g.bus.Recent, View: g.view.Read, Metrics: g.metrics,
		MayWatch: func(_ context.Context, _ schemas.UserID, users []schemas.UserID) error {
			refused := &live.NotAllowed{}
			for _, u := range users {
				if u > 10 {
					refused.Users = append(refused.Users, u)
				}
			}
			if refused.Users == nil {
				return nil
			}
			return refused
		},
	}))(t)
	p := g.dialAt(g.front(server))
	p.send(`{"type":"subscribe","user_ids":["11","1","12","13"]}`) // there, hides, never seen
	texts := map[string]bool{}
	for _, id := range []string{"11", "12", "13"} {
		_, text, err := p.conn.Read(t.Context())
		if err != nil || !strings.Contains(string(text), `"user_id":"`+id+`"`) {
			t.Fatalf("of %s: %s %v", id, text, err)
		}
		texts[strings.ReplaceAll(string(text), id, "")] = true
	}
	if len(texts) != 1 {
		t.Errorf("they are told apart: %v", texts)
	}
	if m := p.expect(watch.Snapshot); len(m.Users) != 1 || m.Users[0].UserID != "1" {
		t.Errorf("%+v", m)
	}
	if n := valueOf(g.metrics.Subscriptions); n != 1 {
		t.Errorf("%v subscriptions", n)
	}
	p.send(`{"type":"subscribe","user_ids":["13"]}`)
	p.expect(watch.Error)
	p.watch(1) // nothing came of it
}
