package query_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/schemas"
)

var people = identity.Named(identity.Key{1})

// newNamedWorld is a world in text mode.
func newNamedWorld(t *testing.T) *world {
	w := newWorld(t, redistest.Mini(t))
	w.ServeMux = http.NewServeMux()
	w.server = query.NewServer(w.reader, slog.New(slog.DiscardHandler))
	w.server.SetUsers(people)
	w.server.Routes(w.ServeMux)
	return w
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
	recorder := httptest.NewRecorder()
	w.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/presence/batch",
		strings.NewReader(`{"user_ids":["a,b",7],"detail":true}`)))
	if body := recorder.Body.String(); !strings.HasPrefix(body, `{"users":[{"user_id":"a,b","state":"online",`) ||
		!strings.Contains(body, `{"user_id":"7","state":"offline",`) {
		t.Errorf("POST is answered with %d %s", recorder.Code, body)
	}
	if status, body := w.get(t, "/presence/batch?user_ids=ann&user_ids="); status != http.StatusBadRequest || !strings.Contains(body, `user_ids[1]`) {
		t.Errorf("an empty name: %d %s", status, body)
	}
	for _, path := range []string{"/presence/ann/history", "/presence/changes?user_ids=ann", "/presence/ann/export"} {
		if status, _ := w.get(t, path); status != http.StatusNotImplemented {
			t.Errorf("%s is answered with %d", path, status)
		}
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
