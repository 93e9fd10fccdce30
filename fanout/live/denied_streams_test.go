package live_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/live"
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

func TestADeniedUserIsClearedOnceOnEveryTransport(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t))
	var list atomic.Pointer[shown.Denied]
	denied := func(context.Context, schemas.UserID, schemas.Version) (shown.Denied, error) { return *list.Load(), nil }
	denying := func(_ context.Context, viewer schemas.UserID, _ []schemas.UserID, _ []schemas.Version,
	) ([]shown.Denying, error) {
		d := list.Load()
		return []shown.Denying{{Version: d.Version, Since: d.Viewers[viewer], Hidden: d.Version}}, nil
	}
	server := must.Get(live.New(fanout.DefaultConfig(), live.Dependencies{Bus: g.bus, Recent: g.bus.Recent,
		View: g.view.Read, Metrics: g.metrics, Denied: denied, Denying: denying,
		Viewer: func(r *http.Request) schemas.UserID {
			return must.Get(schemas.ParseUserID("viewer", r.URL.Query().Get("viewer")))(t)
		}}))(t)
	g.stop() // the bus serves one server at a time
	stop := run(t, server)
	r := &resumable{rig: g, http: httptest.NewServer(server)}
	t.Cleanup(func() { stop(); r.http.Close() })
	g.awaitConnected()

	anna := &person{id: 1}
	g.happen(anna.becomes(schemas.Online))
	socket, other := g.dialAt(r.http.URL+"?viewer=2"), g.dialAt(r.http.URL+"?viewer=3")
	socket.watch(1)
	other.watch(1)
	next, leave := r.events("1&viewer=2", "")
	defer leave()
	next(watch.Hello)
	next(watch.Snapshot)
	for version := range schemas.Version(2) {
		allow := version == 1
		set := anna.step(0, schemas.AudienceSet)
		set.Override.Audience = set.Version
		viewers := map[schemas.UserID]schemas.Millis{2: set.At}
		if allow {
			viewers = nil
		}
		list.Store(&shown.Denied{Version: set.Version, Viewers: viewers})
		g.happen(set)
		event, _ := next(watch.Change)
		for _, m := range []watch.Message{socket.expect(watch.Change), event} {
			if m.User.Version != set.Version.String() || stateOf(*m.User) == "null" == allow {
				t.Errorf("got %+v", m.User)
			}
		}
		away := anna.becomes(schemas.Away)
		away.Override.Audience = set.Version
		g.happen(away)
		sameJSON(t, other.expect(watch.Change).User, g.view.one(t, 1))
	}
	sameJSON(t, socket.expect(watch.Change).User, g.view.one(t, 1))
	event, _ := next(watch.Change)
	sameJSON(t, event.User, g.view.one(t, 1))
}
