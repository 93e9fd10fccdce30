package live_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/live"
	"github.com/stillhere/stillhere/internal/cursor"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// history stands in for the durable store: it lists what was written to it.
type history struct {
	mu     sync.Mutex
	log    []*schemas.Transition
	behind int // how many questions the newest change stays unwritten for
	resync bool
	asked  int
}

func (h *history) write(ts ...*schemas.Transition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, ts...)
}

func (h *history) missed(_ context.Context, _ string, users []schemas.UserID, after cursor.Position) ([]schemas.Presence, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	log := h.log
	if h.behind > 0 {
		h.behind--
		log = log[:len(log)-1]
	}
	var changes []schemas.Presence
	for i, user := range users {
		var c schemas.Current
		for _, t := range log {
			if t.User != user {
				continue
			}
			if c = kept(c, t); t.Version > after.Versions[i] {
				changes = append(changes, schemas.PresenceOf(c, 0, 0))
			}
		}
	}
	return changes, h.resync, nil
}

// resumable is a server with cursors.
type resumable struct {
	*rig
	history *history
	http    *httptest.Server
}

func newResumable(t *testing.T) *resumable {
	t.Helper()
	g := newRig(t, redistest.Mini(t))
	r := &resumable{rig: g, history: &history{}}
	key := make([]byte, 32)
	server := must.Get(live.New(fanout.DefaultConfig(), live.Dependencies{Bus: g.bus, Recent: g.bus.Recent, View: g.view.Read,
		Keys:   cursor.NewKeys(func(context.Context, []byte) ([]byte, error) { return key, nil }),
		Missed: r.history.missed, Metrics: g.metrics}))(t)
	g.stop() // the bus serves one server at a time
	stop := run(t, server)
	r.http = httptest.NewServer(server)
	t.Cleanup(func() { stop(); r.http.Close() })
	g.awaitConnected()
	return r
}

// happens publishes, and lets view and store know.
func (r *resumable) happens(ts ...*schemas.Transition) {
	r.t.Helper()
	r.history.write(ts...)
	r.happen(ts...)
}

// events reads Server-Sent Events, each with its id, from an id on.
func (r *resumable) events(query, lastID string) (next func(kind string) (watch.Message, string), leave func()) {
	r.t.Helper()
	ctx, leave := context.WithCancel(r.t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.http.URL+"/presence/stream?user_ids="+query, nil)
	must.Do(r.t, err)
	if lastID != "" {
		request.Header.Set("Last-Event-ID", lastID)
	}
	answer := must.Get(r.http.Client().Do(request))(r.t)
	r.t.Cleanup(func() { leave(); answer.Body.Close() })
	if answer.StatusCode != http.StatusOK {
		r.t.Fatal(answer.Status)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	return func(kind string) (m watch.Message, id string) {
		r.t.Helper()
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				id = text
			}
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			must.Do(r.t, json.Unmarshal([]byte(data), &m))
			if m.Type != kind {
				r.t.Fatalf("%s is no %s", data, kind)
			}
			return m, id
		}
		r.t.Fatal("the stream has ended", lines.Err())
		return m, id
	}, leave
}

func TestAnEventStreamResumesFromAnyOfItsIDsWithoutGapOrRepeat(t *testing.T) {
	t.Parallel()
	r := newResumable(t)
	anna, ben := &person{id: 1}, &person{id: 2}
	r.happens(anna.becomes(schemas.Online))
	next, leave := r.events("2,1", "")
	next(watch.Hello)
	_, id := next(watch.Snapshot)
	var ids []string
	var heard []schemas.User
	for range 4 {
		ids = append(ids, id)
		for _, p := range []*person{anna, ben} {
			r.happens(p.becomes(schemas.Away))
			var m watch.Message
			if m, id = next(watch.Change); id == "" || m.User.UserID != p.id.String() {
				t.Fatalf("%+v with id %q", m, id)
			}
			heard = append(heard, *m.User)
		}
	}
	leave()
	for i, id := range ids {
		r.history.mu.Lock()
		r.history.behind = i // the sink is behind the channel
		r.history.mu.Unlock()
		next, leave := r.events("1,2", id)
		next(watch.Hello)
		want := heard[2*i:]
		for _, p := range []*person{anna, ben} { // in the order of the users
			for _, w := range want {
				if w.UserID == p.id.String() {
					if m, _ := next(watch.Change); m.User.UserID != w.UserID || m.User.Version != w.Version {
						t.Fatalf("after id %d comes %+v, want %+v", i, m.User, w)
					}
				}
			}
		}
		m, last := next(watch.Resumed)
		if m.Missed != len(want) {
			t.Errorf("%d were missed, want %d", m.Missed, len(want))
		}
		leave()
		// Nothing has happened since, so nothing has to be asked.
		r.history.mu.Lock()
		asked := r.history.asked
		r.history.mu.Unlock()
		next, leave = r.events("1,2", last)
		next(watch.Hello)
		if m, _ := next(watch.Resumed); m.Missed != 0 {
			t.Errorf("%d were missed, want 0", m.Missed)
		}
		leave()
		r.history.mu.Lock()
		if r.history.asked != asked {
			t.Error("the store was asked although nothing was missed")
		}
		r.history.mu.Unlock()
	}
}

func TestAStreamThatCannotBeResumedGetsAResync(t *testing.T) {
	t.Parallel()
	r := newResumable(t)
	anna := &person{id: 1}
	r.happens(anna.becomes(schemas.Online))
	next, leave := r.events("1", "")
	next(watch.Hello)
	_, id := next(watch.Snapshot)
	leave()
	next, leave = r.events("1,2", id) // other users
	next(watch.Hello)
	next(watch.Resync)
	leave()
	r.happens(anna.becomes(schemas.Away))
	r.history.resync = true
	next, leave = r.events("1", id)
	next(watch.Hello)
	if m, after := next(watch.Resync); len(m.Users) != 1 || *m.Users[0].State != "away" || after == "" {
		t.Errorf("the resync is %+v with id %q", m, after)
	}
	leave()
	for _, bad := range []struct{ header, query, field string }{
		{"17", "", "Last-Event-ID"},
		{id + "A", "", "Last-Event-ID"},
		{"", "&since=", "since"},
		{id, "&since=1%2F0", "since"}, // although the header goes before it
	} {
		url := r.http.URL + "/presence/stream?user_ids=1" + bad.query
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
		request.Header.Set("Last-Event-ID", bad.header)
		answer := must.Get(r.http.Client().Do(request))(t)
		var body struct{ Error struct{ Field string } }
		err := json.NewDecoder(answer.Body).Decode(&body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusBadRequest || body.Error.Field != bad.field {
			t.Errorf("%+v is answered with %s, field %q (%v)", bad, answer.Status, body.Error.Field, err)
		}
	}
}

func TestASocketThatAsksForCursorsResumesWithTheLastOne(t *testing.T) {
	t.Parallel()
	r := newResumable(t)
	anna := &person{id: 1}
	r.happens(anna.becomes(schemas.Online))
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	var heard []string
	dropped := false
	var conn net.Conn
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (_ net.Conn, err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return conn, err
	}}
	for m, err := range watch.Messages(ctx, watch.Options{URL: r.http.URL + "/presence/stream", Users: []string{"1", "2"},
		Client: &http.Client{Transport: transport}, Resume: true}) {
		must.Do(t, err)
		heard = append(heard, m.Type)
		switch m.Type {
		case watch.Snapshot:
			if m.Cursor == "" {
				t.Fatal("the snapshot has no cursor")
			}
			_ = conn.Close()
		case watch.Disconnected:
			if !dropped {
				r.happens(anna.becomes(schemas.Away), anna.becomes(schemas.Online))
			}
			dropped = true
		}
		if m.Type == watch.Resumed {
			break
		}
	}
	if text := strings.Join(heard, " "); !strings.HasSuffix(text, "hello change change resumed") {
		t.Errorf("heard %s", text)
	}
}

// The view is stale and lacks what the client has: the stream says nothing of the user until it is fresh.
func TestAResumeWithAStaleViewDoesNotGoBack(t *testing.T) {
	t.Parallel()
	r := newResumable(t)
	anna := &person{id: 1}
	first := anna.becomes(schemas.Online)
	r.happens(first)
	next, leave := r.events("1", "")
	next(watch.Hello)
	next(watch.Snapshot)
	r.happens(anna.becomes(schemas.Away))
	_, id := next(watch.Change)
	leave()
	r.gone()
	r.view.set(12345, nil)
	r.view.mu.Lock()
	r.view.users[1] = kept(schemas.Current{}, first)
	r.view.mu.Unlock()
	r.redis.Mini.FastForward(2 * fanout.DefaultConfig().RecentFor)
	next, leave = r.events("1", id)
	defer leave()
	next(watch.Hello)
	if m, again := next(watch.Resumed); m.Missed != 0 || again == "" {
		t.Errorf("%+v with id %q", m, again)
	}
	r.happens(anna.becomes(schemas.Online))
	if m, _ := next(watch.Resync); m.Users[0].Version != "3" {
		t.Errorf("%+v", m)
	}
}
