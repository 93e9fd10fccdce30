package live_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// Scenario 37.
func TestABadMessageIsAnsweredAndTheConnectionSurvives(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t))
	p := g.dial()
	list := func(ids string) string { return `{"type":"subscribe","user_ids":` + ids + `}` }
	for _, c := range []struct{ message, code, field string }{
		{`{"type":"subscribe","user_`, "malformed", ""},
		{``, "malformed", ""},
		{`[]`, "malformed", ""},
		{`{}`, "invalid_argument", "type"},
		{`{"type":"dance"}`, "unknown_type", "type"},
		{`{"type":"subscribe","user_ids":["1"],"colour":1}`, "unknown_field", "colour"},
		{`{"type":"subscribe"}`, "invalid_argument", "user_ids"},
		{list(`[]`), "invalid_argument", "user_ids"},
		{list(`5`), "invalid_argument", "user_ids"},
		{list(`["1",0]`), "invalid_user_id", "user_ids[1]"},
		{list(`[-1]`), "invalid_user_id", "user_ids[0]"},
		{list(`["9223372036854775808"]`), "invalid_user_id", "user_ids[0]"},
		{list(`["abc"]`), "invalid_user_id", "user_ids[0]"},
		{list(`[1.5]`), "invalid_user_id", "user_ids[0]"},
		{list(`[null]`), "invalid_user_id", "user_ids[0]"},
		{list(`[[1]]`), "invalid_user_id", "user_ids[0]"},
		{`{"type":"unsubscribe","user_ids":["x"]}`, "invalid_user_id", "user_ids[0]"},
		{list(`["` + strings.Repeat("1", 70<<10) + `"]`), "message_too_large", ""},
	} {
		p.send(c.message)
		m := p.expect(watch.Error)
		if m.Problem.Code != c.code || m.Problem.Field != c.field || m.Problem.Message == "" {
			t.Errorf("%.60s: %+v", c.message, m.Problem)
		}
	}
	g.gone()
	p.send(list(`["9223372036854775807", 1]`))
	if users := p.expect(watch.Snapshot).Users; users[0].UserID != "9223372036854775807" {
		t.Fatalf("%+v", users)
	}
}

func TestOneConnectionTooManyIsAskedToComeBackLater(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t), func(c *fanout.Config) { c.MaxConnections = 2 })
	first := g.dial()
	g.dial()
	_, answer, err := websocket.Dial(t.Context(), g.url(), nil)
	if err == nil || answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Fatalf("%v %v", answer, err)
	}
	first.conn.CloseNow()
	for { // the server notices the end by itself
		conn, _, err := websocket.Dial(t.Context(), g.url(), nil)
		if err == nil {
			conn.CloseNow()
			break
		}
	}
}

func TestStoppingSendsViewersWhenToComeBackAndClosesWithGoingAway(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t))
	var peers []*peer
	for range 10 {
		p := g.dial()
		p.watch(1)
		peers = append(peers, p)
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); g.stop() }()
	spread := map[int64]bool{}
	for _, p := range peers {
		spread[p.expect(watch.Reconnect).AfterMillis] = true
		if _, err := p.read(); websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Fatal(err)
		}
	}
	if len(spread) < 5 {
		t.Errorf("ten viewers come back at %d different times", len(spread))
	}
	<-stopped
	if _, answer, err := websocket.Dial(t.Context(), g.url(), nil); err == nil || answer.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("%v %v", answer, err)
	}
	g.gone()
}

func TestAConnectionThatWatchesNobodyIsClosedInTheEnd(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t), func(c *fanout.Config) {
		c.PingInterval, c.IdleTimeout = 5*time.Millisecond, time.Nanosecond
	})
	p := g.dial()
	if _, err := p.read(); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Fatal(err)
	}
}

func TestAPlainRequestIsAnsweredWithWhatTheStreamNeeds(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t))
	for method, want := range map[string]int{http.MethodGet: http.StatusUpgradeRequired, http.MethodPost: http.StatusMethodNotAllowed} {
		request, _ := http.NewRequestWithContext(t.Context(), method, g.http.URL+"/presence/stream", nil)
		answer := must.Get(http.DefaultTransport.RoundTrip(request))(t)
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: %s", method, answer.Status)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestTheStreamInsideAnotherSocketTakesItsMessagesAndNoOthers(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t))
	sent := make(chan watch.Message, 100)
	var closed sync.Once
	handle, end := g.server.Open(1, schemas.Name{}, false, func(text []byte) error {
		var m watch.Message
		if err := json.Unmarshal(text, &m); err != nil {
			t.Error(err)
		}
		sent <- m
		return nil
	})
	defer closed.Do(end)
	for _, foreign := range []string{`{"type":"activity","idle_ms":1}`, `{"type":"bye"}`, ``, `{`, `{}`} {
		if handle([]byte(foreign)) {
			t.Errorf("took %q", foreign)
		}
	}
	if !handle([]byte(`{"type":"subscribe","user_ids":["1"]}`)) || !handle([]byte(`{"type":"subscribe","user_ids":["x"]}`)) {
		t.Fatal("did not take its own")
	}
	for _, want := range []string{watch.Snapshot, watch.Error} {
		if m := <-sent; m.Type != want {
			t.Fatalf("%+v", m)
		}
	}
	g.happen((&person{id: 1}).becomes(schemas.Online))
	if m := <-sent; m.Type != watch.Change {
		t.Fatalf("%+v", m)
	}
	closed.Do(end)
	g.gone()
	handle([]byte(`{"type":"subscribe","user_ids":["1"]}`))
	g.gone()
}

func TestTheWatchClientComesBackByItself(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t))
	anna := &person{id: 1}
	g.happen(anna.becomes(schemas.Online))
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	snapshots := 0
	var wire net.Conn // the newest connection
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		var err error
		wire, err = new(net.Dialer).DialContext(ctx, network, addr)
		return wire, err
	}}}
	for m, err := range watch.Messages(ctx, watch.Options{URL: g.url(), Users: []string{"1", "2"}, Client: client}) {
		must.Do(t, err)
		switch m.Type {
		case watch.Snapshot:
			if snapshots++; snapshots == 1 {
				wire.Close()
				g.happen(anna.becomes(schemas.Away))
				continue
			}
			sameJSON(t, m.Users[0], g.view.one(t, 1))
			cancel()
		case watch.Disconnected:
			if m.Cause == nil || m.RetryIn <= 0 {
				t.Fatalf("%+v", m)
			}
		}
	}
	if snapshots != 2 {
		t.Fatalf("%d snapshots", snapshots)
	}
	// Without users there is a hello alone, and the caller leaves.
	for m, err := range watch.Messages(t.Context(), watch.Options{URL: g.url() + "?x=1"}) {
		if err != nil || m.Type != watch.Hello {
			t.Fatal(m, err)
		}
		break
	}
}

func TestOtherLimitsHoldForStreamsThatAreOpen(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t), func(c *fanout.Config) { c.MaxSubscriptions = 2 })
	p := g.dial()
	p.send(`{"type":"subscribe","user_ids":["1","2","3"]}`)
	p.expect(watch.Error)
	limits := fanout.DefaultConfig()
	limits.AllowSubscriptions(3)
	limits.MaxConnections = 1
	g.server.Limit(limits)
	p.send(`{"type":"subscribe","user_ids":["1","2","3"]}`)
	p.expect(watch.Snapshot)
	if _, answer, err := websocket.Dial(t.Context(), g.url(), nil); err == nil || answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a second stream: %v %v", answer, err)
	}
}

func TestAStormOfSubscriptionsIsRefusedAndWhatIsWatchedStays(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t), func(c *fanout.Config) { c.MaxSubscriptions, c.SubscribeRate = 50, 1e-3 })
	p := g.dial()
	ask := func(kind string, first int) {
		ids := make([]string, 25)
		for i := range ids {
			ids[i] = strconv.Itoa(first + i)
		}
		p.send(`{"type":"` + kind + `","user_ids":["` + strings.Join(ids, `","`) + `"]}`)
	}
	ask("subscribe", 1)
	p.expect(watch.Snapshot)
	for i := range 7 { // 25 stay watched; others come and go, up to 200
		ask("subscribe", 101+25*i)
		p.expect(watch.Snapshot)
		ask("unsubscribe", 101+25*i)
	}
	for range 100 {
		ask("subscribe", 501)
		if m := p.expect(watch.Error); m.Problem.Code != "rate_limited" || m.Problem.Field != "user_ids" || !strings.Contains(m.Problem.Message, "ask again in") {
			t.Fatalf("%+v", m)
		}
	}
	anna := &person{id: 1}
	g.happen(anna.becomes(schemas.Online))
	sameJSON(t, p.expect(watch.Change).User, g.view.one(t, 1))
	if n := valueOf(g.metrics.Subscriptions); n != 25 {
		t.Errorf("%v subscriptions", n)
	}
}
