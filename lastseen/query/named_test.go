package query_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/cursor"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

var people = identity.Named(identity.Key{1})

// newNamedWorld is a world in text mode.
func newNamedWorld(t *testing.T) *world {
	w := newWorld(t, redistest.Mini(t))
	w.ServeMux = http.NewServeMux()
	w.server = query.NewServer(w.reader, slog.New(slog.DiscardHandler))
	w.server.SetUsers(people, tenantOf)
	w.server.SetKeys(cursor.NewKeys(w.view.KeepCursorKey))
	w.server.SetExport(func(_ context.Context, user schemas.UserID, name schemas.Name, to io.Writer) error {
		_, err := fmt.Fprintf(to, "%d %s %s", user, name.Tenant, name.Text)
		return err
	})
	w.server.Routes(w.ServeMux)
	return w
}

// bound is the header with the tenant of a caller who is bound to it.
const bound = "Bound"

func tenantOf(r *http.Request, _ []string) (string, error) {
	tenant := r.URL.Query().Get("tenant")
	own := r.Header.Get(bound)
	if !r.URL.Query().Has("tenant") {
		tenant = own
	}
	if own != "" && tenant != own {
		return "", &schemas.FieldError{Code: "tenant_not_allowed", Field: "tenant", Reason: "is not yours"}
	}
	return tenant, nil
}

// of is t of the user with a name.
func of(tenant, name string, t *schemas.Transition) *schemas.Transition {
	t.User, t.Name = people.ID(tenant, name), schemas.Name{Tenant: tenant, Text: name}
	return t
}

func TestUsersAreReadByTheirNames(t *testing.T) {
	t.Parallel()
	w := newNamedWorld(t)
	w.happen(t, of("", "a,b", arrives(0, 1, day)), of("", `ü"/`, arrives(0, 2, day)), of("acme", "ann", arrives(0, 3, day)))
	w.upTo(t, schemas.Millis(1<<46))
	w.want(t, "/presence/batch?user_ids=a,b&user_ids=%C3%BC%22/&user_ids=ann&user_ids=a%2Cb", `{"a,b":"online","ü\"/":"online","ann":"offline"}`)
	for path, begin := range map[string]string{
		"/presence/a,b":          `{"user_id":"a,b","state":"online",`,
		"/presence/%C3%BC%22%2F": `{"user_id":"ü\"/","state":"online",`,
		"/presence/ann":          `{"user_id":"ann","state":"offline",`, // of the default tenant
		"/presence/" + people.ID("", "a,b").String(): `{"user_id":"` + people.ID("", "a,b").String() + `","state":"offline",`,
	} {
		if status, body := w.get(t, path); status != http.StatusOK || !strings.HasPrefix(body, begin) || strings.Count(body, `"user_id"`) != 1 {
			t.Errorf("%s is answered with %d %s", path, status, body)
		}
	}
	recorder := w.ask(t, http.MethodPost, "/presence/batch", `{"user_ids":["a,b",7],"detail":true}`)
	if body := recorder.Body.String(); !strings.HasPrefix(body, `{"users":[{"user_id":"a,b","state":"online",`) ||
		!strings.Contains(body, `{"user_id":"7","state":"offline",`) {
		t.Errorf("POST is answered with %d %s", recorder.Code, body)
	}
	if status, body := w.get(t, "/presence/batch?user_ids=ann&user_ids="); status != http.StatusBadRequest || !strings.Contains(body, `user_ids[1]`) {
		t.Errorf("an empty name: %d %s", status, body)
	}
}

func TestEachTenantHasItsOwnUsersInEveryRead(t *testing.T) {
	t.Parallel()
	w := newNamedWorld(t)
	w.server.SetViewer(func(*http.Request) query.Viewer { return query.Viewer{Admin: true} })
	w.happen(t, of("acme", "ann", arrives(0, 1, day)))
	w.upTo(t, schemas.Millis(1<<46))
	for path, want := range map[string][2]string{ // of tenant acme, and of the default one
		"/presence/batch?user_ids=ann":   {`{"ann":"online"}`, `{"ann":"offline"}`},
		"/presence/ann?devices=false":    {`{"user_id":"ann","tenant":"acme","state":"online",`, `{"user_id":"ann","state":"offline",`},
		"/presence/ann/history?limit=9":  {`{"changes":[{"event_id":`, `{"changes":[],`},
		"/presence/ann/export?":          {people.ID("acme", "ann").String() + " acme ann", people.ID("", "ann").String() + "  ann"},
		"/presence/ann/visibility?":      {`{"user_id":"ann","tenant":"acme","visibility":"everyone"}`, `{"user_id":"ann","visibility":"everyone"}`},
		"/presence/changes?user_ids=ann": {`{"resync":true,"reason":"start","users":[{"user_id":"ann","tenant":"acme","state":"online",`, `{"resync":true,"reason":"start","users":[{"user_id":"ann","state":"offline",`},
	} {
		for i, tenant := range []string{"&tenant=acme", ""} {
			recorder := w.ask(t, http.MethodGet, path+tenant, "")
			if status, body := recorder.Code, recorder.Body.String(); status != http.StatusOK || !strings.HasPrefix(body, want[i]) || strings.Count(body, `"user_id"`) > 1 {
				t.Errorf("%s is answered with %d %s, want %s", path+tenant, status, body, want[i])
			}
		}
		recorder := w.ask(t, http.MethodGet, path+"&tenant=acme", "", bound, "globex")
		if recorder.Code != http.StatusForbidden || !strings.Contains(recorder.Body.String(), `"tenant_not_allowed"`) {
			t.Errorf("%s to a caller of globex: %d %s", path, recorder.Code, recorder.Body)
		}
	}
	// Of a tenant's name in another parameter, or of an internal id, nothing comes.
	w.want(t, "/presence/batch?user_ids=acme/ann&user_ids="+people.ID("acme", "ann").String(),
		`{"acme/ann":"offline","`+people.ID("acme", "ann").String()+`":"offline"}`)
}

func TestChangesAreListedByName(t *testing.T) {
	t.Parallel()
	w := newNamedWorld(t)
	w.happen(t, of("", "a,b", arrives(0, 1, now())), of("", "bob", arrives(0, 2, now())))
	w.upTo(t, now())
	ask := func(since string) (p struct {
		Changes, Users []struct {
			User  string `json:"user_id"`
			State string
		}
		Cursor string
	}) {
		t.Helper()
		recorder := w.ask(t, http.MethodPost, "/presence/changes", `{"user_ids":["a,b","bob","ann"]`+since+`}`)
		if err := json.Unmarshal(recorder.Body.Bytes(), &p); err != nil || recorder.Code != http.StatusOK {
			t.Fatal(recorder.Code, recorder.Body, err)
		}
		return p
	}
	first := ask("")
	w.happen(t, of("", "bob", leaves(0, 3, now())))
	if p := ask(`,"since":"` + first.Cursor + `"`); len(first.Users) != 3 || len(p.Changes) != 1 || p.Changes[0].User != "bob" || p.Changes[0].State != "offline" {
		t.Errorf("%+v after %+v", p, first)
	}
}

func TestAStrangerWithTheSameIDLooksHidden(t *testing.T) {
	t.Parallel()
	w := newNamedWorld(t)
	w.server.SetViewer(func(*http.Request) query.Viewer { return query.Viewer{Admin: true} })
	other := of("", "ann", arrives(0, 1, day))
	other.Name.Text = "eve" // has the id of ann
	w.happen(t, other)
	w.upTo(t, schemas.Millis(1<<46))
	w.want(t, "/presence/batch?user_ids=ann", `{"ann":null}`)
	w.want(t, "/presence/ann/visibility", `{"user_id":"ann","visibility":null}`)
	if _, body := w.get(t, "/presence/ann"); !strings.HasPrefix(body, `{"user_id":"ann","state":null,"last_seen_at":null,`) {
		t.Error(body)
	}
	w.happen(t, of("", "ann", leaves(0, 2, day+1))) // the newest name counts
	nameless := of("", "ann", arrives(0, 3, day+2))
	nameless.Name = schemas.Name{}
	w.happen(t, nameless) // and stays
	w.want(t, "/presence/batch?user_ids=ann", `{"ann":"online"}`)
}

func TestAStrangerWhomTheDurableStoreAloneKnowsLooksHidden(t *testing.T) {
	t.Parallel()
	w := newNamedWorld(t)
	w.server.SetViewer(func(*http.Request) query.Viewer { return query.Viewer{Admin: true} })
	other := of("", "ann", arrives(0, 1, day))
	other.Name.Text = "eve" // has the id of ann
	w.durably(t, other)
	w.upTo(t, now())
	w.want(t, "/presence/batch?user_ids=ann", `{"ann":null}`)
	w.want(t, "/presence/ann/visibility", `{"user_id":"ann","visibility":null}`)
	w.want(t, "/presence/ann/history", `{"changes":[],"next_cursor":null}`)
	recorder := w.ask(t, http.MethodGet, "/presence/ann/export", "")
	if recorder.Code != http.StatusOK || recorder.Body.Len() > 0 {
		t.Errorf("the export is %d %s", recorder.Code, recorder.Body)
	}
	if _, body := w.get(t, "/presence/changes?user_ids=ann"); !strings.Contains(body, `"users":[{"user_id":"ann","state":null,`) {
		t.Error(body)
	}
}

func TestCountsAreOfAllTenantsOfOneOrOfTheSendersAlone(t *testing.T) {
	t.Parallel()
	w := newNamedWorld(t)
	w.server.SetBound(func(r *http.Request) bool { return r.Header.Get(bound) != "" })
	now := schemas.MillisOf(time.Now())
	acme, own := schemas.Counts{Online: 2, Away: 1, ByKind: [5]int64{3}}, schemas.Counts{Online: 5}
	sum := acme
	sum.Add(&own)
	for p := range int32(partitions) {
		c := redisview.TenantCounts{At: now, Tenants: []schemas.TenantCounts{{Tenant: "acme", Counts: acme}, {Tenant: "", Counts: own}}}
		if p == 0 {
			c.Tenants, c.Others = c.Tenants[:1], &own
		}
		must.Do(t, w.view.WriteTenantCounts(t.Context(), p, c))
		must.Do(t, w.view.WriteCounts(t.Context(), p, redisview.PartitionCounts{At: now, Counts: sum}))
	}
	for path, want := range map[string]string{
		"/presence/count":             `{"online":21,"away":3,`,
		"/presence/count?tenant=acme": `{"online":6,"away":3,"devices":{"bot":0,"desktop":0,"mobile":9,`,
		"/presence/count?tenant=":     `{"online":10,"away":0,`,
		"/presence/count?tenant=none": `{"online":0,"away":0,`,
	} {
		status, body := w.get(t, path)
		if status != http.StatusOK || !strings.HasPrefix(body, want) {
			t.Errorf("%s: %d %s, want %s", path, status, body, want)
		}
		missing := `"missing_partitions":[0]` // whose list is not complete
		if strings.HasSuffix(path, "acme") || strings.HasSuffix(path, "count") {
			missing = `"missing_partitions":[]`
		}
		if !strings.Contains(body, missing) {
			t.Errorf("%s: %s, want %s", path, body, missing)
		}
	}
	for path, want := range map[string]int{"/presence/count": http.StatusOK, "/presence/count?tenant=acme": http.StatusOK,
		"/presence/count?tenant=other": http.StatusForbidden} {
		answer := w.ask(t, http.MethodGet, path, "", bound, "acme")
		if answer.Code != want || want == http.StatusOK && !strings.HasPrefix(answer.Body.String(), `{"online":6,"away":3,`) {
			t.Errorf("%s of a caller of acme: %d %s", path, answer.Code, answer.Body)
		}
	}
	if status, body := w.get(t, "/presence/count?tenant=a+b"); status != http.StatusBadRequest || !strings.Contains(body, "invalid_tenant") {
		t.Error(status, body)
	}
}
