package live_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

var people = identity.Named(identity.Key{1})

// tenantOf gives callers with the header Bound no other tenant.
func tenantOf(r *http.Request) (string, error) {
	tenant := r.URL.Query().Get("tenant")
	if own := r.Header.Get("Bound"); own != "" && tenant != own {
		return "", &schemas.FieldError{Code: "tenant_not_allowed", Field: "tenant", Reason: "is not yours"}
	}
	return tenant, nil
}

// called gives transitions a name.
func called(tenant, name string, ts ...*schemas.Transition) []*schemas.Transition {
	for _, t := range ts {
		t.User, t.Name = people.ID(tenant, name), schemas.Name{Tenant: tenant, Text: name}
	}
	return ts
}

// text is the next message as it is.
func (p *peer) text() string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), waitLimit)
	defer cancel()
	_, text, err := p.conn.Read(ctx)
	must.Do(p.t, err)
	return string(text)
}

func (p *peer) wants(begin string) string {
	p.t.Helper()
	text := p.text()
	if !strings.HasPrefix(text, begin) {
		p.t.Fatalf("got %s, want %s", text, begin)
	}
	return text
}

func TestStreamsNameUsersOfTheirTenant(t *testing.T) {
	t.Parallel()
	g := newRigOf(t, redistest.Mini(t), people)
	const uuid = "6f9619ff-8b86-d011-b42d-00c04fc964ff"
	var acme, other person
	p, q := g.dialAt(g.url()+"?tenant=acme"), g.dial()
	p.send(`{"type":"subscribe","user_ids":["a,b","` + uuid + `",7,"a,b"]}`)
	if text := p.wants(`{"type":"snapshot","users":[{"user_id":"a,b","tenant":"acme","state":"offline",`); strings.Count(text, `"user_id"`) != 3 ||
		!strings.Contains(text, `{"user_id":"`+uuid+`","tenant":"acme",`) || !strings.Contains(text, `{"user_id":"7","tenant":"acme",`) {
		t.Error(text)
	}
	// An internal id is a name like another one.
	q.send(`{"type":"subscribe","user_ids":["` + uuid + `","` + people.ID("acme", uuid).String() + `"]}`)
	q.wants(`{"type":"snapshot","users":[{"user_id":"` + uuid + `","state":"offline",`)
	g.happen(called("acme", uuid, acme.becomes(schemas.Online))...)
	if text := p.wants(`{"type":"change","user":{"user_id":"` + uuid + `","tenant":"acme","state":"online",`); strings.Contains(text, people.ID("acme", uuid).String()) {
		t.Error("an internal id is shown:", text)
	}
	g.happen(called("", uuid, other.becomes(schemas.Away))...)
	q.wants(`{"type":"change","user":{"user_id":"` + uuid + `","state":"away",`) // and not that of acme before
	for list, field := range map[string]string{`[""]`: "user_ids[0]", `["x",null]`: "user_ids[1]", `["x",{}]`: "user_ids[1]", `["\ud800"]`: "user_ids[0]"} {
		q.send(`{"type":"subscribe","user_ids":` + list + `}`)
		if text := q.wants(`{"type":"error","error":{"code":"invalid_name",`); !strings.Contains(text, field) {
			t.Error(text)
		}
	}
	p.send(`{"type":"unsubscribe","user_ids":["` + uuid + `"]}`)
	p.send(`{"type":"subscribe","user_ids":["x"]}`)
	p.wants(`{"type":"snapshot","users":[{"user_id":"x",`)
	g.happen(called("acme", uuid, acme.becomes(schemas.Away))...)
	g.happen(called("acme", "a,b", acme.becomes(schemas.Online))...)
	p.wants(`{"type":"change","user":{"user_id":"a,b",`)
}

func TestACallerOfATenantCannotOpenAStreamOfAnother(t *testing.T) {
	t.Parallel()
	g := newRigOf(t, redistest.Mini(t), people)
	for query, want := range map[string]int{"?user_ids=x&tenant=acme": http.StatusForbidden, "?user_ids=x": http.StatusForbidden,
		"?user_ids=a,b&user_ids=c&tenant=globex": http.StatusOK} {
		ctx, cancel := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.http.URL+"/presence/stream"+query, nil)
		must.Do(t, err)
		request.Header.Set("Bound", "globex")
		answer, err := g.http.Client().Do(request)
		if err != nil || answer.StatusCode != want {
			t.Errorf("%s: %v, %v", query, answer, err)
		} else {
			_ = answer.Body.Close()
		}
		cancel()
	}
	if _, answer, err := websocket.Dial(t.Context(), g.url()+"?tenant=acme", &websocket.DialOptions{HTTPHeader: http.Header{"Bound": {"globex"}}}); err == nil || answer.StatusCode != http.StatusForbidden {
		t.Error(answer, err)
	}
}

func TestAUserWithAnotherNameAndTheSameIDLooksHiddenToViewers(t *testing.T) {
	t.Parallel()
	g := newRigOf(t, redistest.Mini(t), people)
	var ann person
	p, q := g.dial(), g.dialAt(g.url()+"?tenant=evil")
	p.send(`{"type":"subscribe","user_ids":["ann"]}`)
	p.wants(`{"type":"snapshot","users":[{"user_id":"ann","state":"offline",`)
	stranger := called("", "ann", ann.becomes(schemas.Online))
	stranger[0].Name.Text = "eve"
	g.publish(stranger...)
	p.wants(`{"type":"change","user":{"user_id":"ann","state":null,"last_seen_at":null,"last_active_at":null,"devices":null,"kinds":null,`)
	q.send(`{"type":"subscribe","user_ids":["mallory"]}`)
	q.wants(`{"type":"snapshot","users":[{"user_id":"mallory","tenant":"evil","state":null,`)
	g.publish(called("", "ann", ann.becomes(schemas.Online))...)
	p.wants(`{"type":"change","user":{"user_id":"ann","state":"online",`)
}

func TestTheClientOfTheStreamKnowsUsersByName(t *testing.T) {
	t.Parallel()
	g := newRigOf(t, redistest.Mini(t), people)
	var ann person
	for m, err := range watch.Messages(t.Context(), watch.Options{URL: g.url(), Tenant: "acme", Users: []string{"ann", "a,b"}, Resume: true}) {
		must.Do(t, err)
		switch m.Type {
		case watch.Snapshot:
			if len(m.Users) != 2 || m.Users[1].UserID != "a,b" || m.Users[1].Tenant != "acme" || *m.Users[1].State != "offline" {
				t.Fatalf("%+v", m.Users)
			}
			g.happen(called("acme", "ann", ann.becomes(schemas.Online))...)
		case watch.Change:
			if m.User.UserID != "ann" || m.User.Tenant != "acme" || *m.User.State != "online" {
				t.Errorf("%+v", m.User)
			}
			return
		}
	}
}
