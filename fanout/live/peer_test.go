package live_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// peer is a viewer with a WebSocket.
type peer struct {
	t    *testing.T
	conn *websocket.Conn
}

func (g *rig) url() string { return "ws" + strings.TrimPrefix(g.http.URL, "http") + "/presence/stream" }

func (g *rig) dial() *peer { return g.dialAt(g.url()) }

// front has another server than the rig's own serve, and returns its URL.
func (g *rig) front(server http.Handler) string {
	front := httptest.NewServer(server)
	g.t.Cleanup(front.Close)
	return front.URL
}

func (g *rig) dialAt(url string) *peer {
	g.t.Helper()
	conn, _, err := websocket.Dial(g.t.Context(), url, nil)
	must.Do(g.t, err)
	conn.SetReadLimit(1 << 22)
	p := &peer{g.t, conn}
	g.t.Cleanup(func() { conn.CloseNow() })
	if m := p.next(); m.Type != watch.Hello || m.MaxSubscriptions == 0 || m.HeartbeatMillis == 0 {
		g.t.Fatalf("first came %+v", m)
	}
	return p
}

func (p *peer) send(text string) {
	p.t.Helper()
	must.Do(p.t, p.conn.Write(p.t.Context(), websocket.MessageText, []byte(text)))
}

func (p *peer) read() (watch.Message, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), waitLimit)
	defer cancel()
	_, text, err := p.conn.Read(ctx)
	if err != nil {
		return watch.Message{}, err
	}
	var m watch.Message
	return m, errors.Join(json.Unmarshal(text, &m))
}

func decoded(t *testing.T, text []byte) (m watch.Message) {
	t.Helper()
	must.Do(t, json.Unmarshal(text, &m))
	return m
}

func (p *peer) next() watch.Message {
	p.t.Helper()
	m := must.Get(p.read())(p.t)
	return m
}

// expect is next, which must be of that type.
func (p *peer) expect(kind string) watch.Message {
	p.t.Helper()
	m := p.next()
	if m.Type != kind {
		p.t.Fatalf("got %+v, want a %s", m, kind)
	}
	return m
}

// watch subscribes and returns the snapshot.
func (p *peer) watch(ids ...schemas.UserID) []schemas.User {
	p.t.Helper()
	text := must.Get(json.Marshal(map[string]any{"type": "subscribe", "user_ids": ids}))(p.t)
	p.send(string(text))
	return p.expect(watch.Snapshot).Users
}

func stateOf(p schemas.User) string {
	if p.State == nil {
		return "null"
	}
	return *p.State
}

func sameJSON(t *testing.T, got, want any) {
	t.Helper()
	a, errA := json.Marshal(got)
	b, errB := json.Marshal(want)
	must.Do(t, errors.Join(errA, errB))
	if string(a) != string(b) {
		t.Fatalf("got  %s\nwant %s", a, b)
	}
}

// news is what the next message says of its one user, be it a change or a
// correction: after a gap either may bring it.
func (p *peer) news() schemas.User {
	p.t.Helper()
	m := p.next()
	switch {
	case m.Type == watch.Change:
		return *m.User
	case m.Type == watch.Resync && len(m.Users) == 1:
		return m.Users[0]
	}
	p.t.Fatalf("got %+v, want news of one user", m)
	panic("unreachable")
}
