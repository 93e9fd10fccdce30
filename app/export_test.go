package app_test

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// emptyStores are a store and a graph in files.
func emptyStores(t *testing.T) (*sqlitestore.Store, *graph.Store) {
	t.Helper()
	dir := t.TempDir()
	config := sqlitestore.Defaults()
	config.Path = filepath.Join(dir, "s.db")
	s := must.Get(sqlitestore.Open(t.Context(), config))(t)
	t.Cleanup(func() { _ = s.Close() })
	edges := must.Get(app.OpenGraph(t.Context(), app.Store{SQLite: filepath.Join(dir, "g.db")}, pgstore.Defaults()))(t)
	t.Cleanup(edges.Close)
	return s, edges
}

func TestAnExportHasEverythingOfTheUserAlsoWhatIsHidden(t *testing.T) {
	t.Parallel()
	s, edges := emptyStores(t)
	const at = schemas.Millis(1_763_700_000_000)
	var changes []*schemas.Transition
	for user := schemas.UserID(1); user <= 2; user++ {
		changes = append(changes,
			&schemas.Transition{User: user, From: schemas.Offline, To: schemas.Online, At: at, LastSeen: at, LastActive: at, Cause: schemas.FirstBeat,
				Device: 7, Kinds: schemas.SetOfKinds(schemas.Web), Visibility: schemas.Everyone, Version: 5, Policy: "p"},
			&schemas.Transition{User: user, From: schemas.Online, To: schemas.Online, At: at + 1, LastSeen: at, LastActive: at,
				Cause: schemas.VisibilityChange, Kinds: schemas.SetOfKinds(schemas.Web), Visibility: schemas.Nobody, Version: 6, Policy: "p",
				Override: schemas.Override{State: schemas.Invisible, Note: "<3", Hides: true}})
	}
	changes = append(changes, &schemas.Transition{User: 8, From: schemas.Offline, To: schemas.Offline, At: at, Cause: schemas.LastSeenSet,
		Visibility: schemas.Everyone, Version: 7, Policy: "p", Override: schemas.Override{LastSeen: schemas.SeenNever}})
	changes = append(changes, &schemas.Transition{User: 7, From: schemas.Offline, To: schemas.Offline, At: at, Cause: schemas.AudienceSet,
		Visibility: schemas.Everyone, Version: 8, Policy: "p", Override: schemas.Override{Audience: 8},
		Denies: must.Get(schemas.NewDenies("denies", 7, []schemas.UserID{3, 4}, nil))(t)})
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 9, Changes: changes}))
	must.Get(edges.Add(t.Context(), []graph.Edge{{User: 1, Follower: 2}, {User: 3, Follower: 1}, {User: 2, Follower: 3}}))(t)
	statuses := func(_ context.Context, user schemas.UserID, after schemas.Millis) (*schemas.Status, error) {
		if user == 1 && after != at+1 {
			t.Errorf("the status is searched from %s on, want that of the last change", after)
		}
		if user != 1 {
			return nil, nil //nolint:nilnil // there is none
		}
		return &schemas.Status{User: 1, State: schemas.Online, LastSeen: at + 5, Visibility: schemas.Nobody, Version: 6,
			Override: schemas.Override{State: schemas.Invisible}}, nil
	}
	export := func(user schemas.UserID) string {
		var out strings.Builder
		must.Do(t, (app.Export{Store: s, Graph: edges, Status: statuses}).Write(t.Context(), user, schemas.Name{}, &out))
		return out.String()
	}
	lines := strings.Split(export(1), "\n")
	for i, want := range []string{
		`{"type":"presence","user_id":"1","state":"online",`, `{"type":"change",`, `,"override":{"state":"invisible","note":"\u003c3","hides":true}}`,
		`{"type":"status","user_id":"1","state":"online","since":null,"last_seen_at":"2025-11-21T04:40:00.005Z","last_active_at":null,` +
			`"device_kinds":[],"kinds":{},"visibility":"nobody","version":"6","override":{"state":"invisible"}}`,
		`{"type":"follower","user_id":"2"}`, `{"type":"follows","user_id":"3"}`, "",
	} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("line %d is not %s:\n%s", i, want, strings.Join(lines, "\n"))
		}
	}
	if len(lines) != 7 {
		t.Errorf("%d lines", len(lines))
	}
	if text := export(8); strings.Count(text, `"override":{"last_seen":"never"}`) != 2 {
		t.Errorf("of a user who was never here and does not show when: %s", text)
	}
	if text := export(7); !strings.Contains(text, `{"type":"denied","user_id":"3","since":"2025-11-21T04:40:00.000Z"}
{"type":"denied","user_id":"4","since":"2025-11-21T04:40:00.000Z"}
`) {
		t.Errorf("of a user who denies two: %s", text)
	}
	if text := export(9); text != "" {
		t.Errorf("of an unknown user: %s", text)
	}
	erasure := &schemas.Transition{User: 1, From: schemas.Online, To: schemas.Offline, At: at + 9, Cause: schemas.Erased,
		Visibility: schemas.Everyone, Version: 10, ErasedUntil: at + 86_400_000}
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: 9, Next: 10, Changes: []*schemas.Transition{erasure}}))
	must.Do(t, edges.Forget(t.Context(), 1))
	statuses = nil
	if text := export(1); text != `{"type":"erasure","user_id":"1","version":"10","last_copy_gone_on":"2025-11-22"}`+"\n" {
		t.Errorf("of an erased user: %s", text)
	}
}

func TestAnExportNamesFollowersWhoNeverSentAHeartbeat(t *testing.T) {
	t.Parallel()
	s, edges := emptyStores(t)
	name := func(text string) schemas.Name { return schemas.Name{Tenant: "acme", Text: text} }
	names := graph.Names{1: name("ann"), 2: name("never")}
	must.Get(edges.Load(t.Context(), "file", 0, 1, []graph.Edge{{User: 1, Follower: 2}}, names))(t)
	// Written with SQL: the graph has no names.
	must.Get(edges.Add(t.Context(), []graph.Edge{{User: 3, Follower: 1}, {User: 4, Follower: 1}}))(t)
	change := &schemas.Transition{User: 3, From: schemas.Offline, To: schemas.Online, At: 1_763_700_000_000, Cause: schemas.FirstBeat,
		Visibility: schemas.Everyone, Version: 5, Name: name("bob")}
	denies := &schemas.Transition{User: 1, From: schemas.Offline, To: schemas.Offline, At: 1_763_700_000_000, Cause: schemas.AudienceSet,
		Visibility: schemas.Everyone, Version: 6, Override: schemas.Override{Audience: 6}, Name: name("ann"),
		Denies: must.Get(schemas.NewDenies("denies", 1, []schemas.UserID{3}, nil))(t)}
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 9, Changes: []*schemas.Transition{change, denies}}))
	must.Do(t, s.WriteNames(t.Context(), []schemas.UserName{{User: 3, Name: name("bob")}}))
	var out strings.Builder
	must.Do(t, (app.Export{Named: true, Store: s, Graph: edges}).Write(t.Context(), 1, name("ann"), &out))
	want := `{"type":"follower","user_id":"never","tenant":"acme"}
{"type":"follows","user_id":"bob","tenant":"acme"}
{"type":"follows","user_id":null}
`
	const denied = `{"type":"denied","user_id":"bob","tenant":"acme","since":"2025-11-21T04:40:00.000Z"}` + "\n"
	if !strings.HasSuffix(out.String(), want) || !strings.Contains(out.String(), denied) {
		t.Errorf("the export ends with\n%swant\n%s", out.String(), want)
	}
}

func TestAnExportIsForTheUserAndAdministratorsAlsoOfAHiddenUser(t *testing.T) {
	t.Parallel()
	host, dir := guardedAs(t, func(d *app.Dev) { d.Auth.Requests = 4 }) // 20 at once: two exports
	admin := token(t, time.Hour, "gateway_id", "gw-1", "presence:admin")
	follow(t, dir, graph.Edge{User: 43, Follower: 42})
	beatUntilSeen(t, host, admin, owner)
	status, _, text := send(t, host, http.MethodPut, "/presence/"+owner+"/visibility", `{"visibility":"nobody"}`, admin)
	if status != http.StatusOK {
		t.Fatalf("hiding: %d %s", status, text)
	}
	path := "/presence/" + owner + "/export"
	whole := func(text string) bool {
		for _, part := range []string{`{"type":"presence","user_id":"43","state":"online"`, `"visibility":"nobody"`, `"cause":"first_beat"`,
			`{"type":"status","user_id":"43","state":"online"`, `{"type":"follower","user_id":"42"}`} {
			if !strings.Contains(text, part) {
				return false
			}
		}
		return true
	}
	eventually(t, "everything is in an administrator's export", func() bool {
		status, _, text := ask(t, host, path, admin)
		return status == http.StatusOK && whole(text)
	})
	own := token(t, time.Hour, "sub", owner, "presence:read")
	status, header, text := ask(t, host, path, own)
	if status != http.StatusOK || !whole(text) || header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("the user gets %d %v %s", status, header, text)
	}
	_, _, here := ask(t, host, path, reader(t, stranger))
	status, _, never := ask(t, host, "/presence/"+nobody+"/export", reader(t, stranger))
	if status != http.StatusForbidden || here != never || !strings.Contains(here, `"not_allowed"`) {
		t.Errorf("another user gets %d: of a hidden user %s, of one never seen %s", status, here, never)
	}
	for n := 1; status != http.StatusTooManyRequests; n++ {
		if status, header, text = ask(t, host, path, own); n > 10 {
			t.Fatalf("the export is never refused: %d %s", status, text)
		}
	}
	if header.Get("Retry-After") == "" || !strings.Contains(text, "too_many_requests") {
		t.Errorf("a user who exports again and again gets %v %s", header, text)
	}
}
