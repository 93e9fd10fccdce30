package dataset

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func TestAnExportHasEverythingOfTheUserAlsoWhatIsHidden(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, closeStore, err := OpenStore(t.Context(), app.Store{SQLite: filepath.Join(dir, "s.db")}, pgstore.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = closeStore() }()
	edges, err := app.OpenGraph(t.Context(), app.Store{SQLite: filepath.Join(dir, "g.db")}, pgstore.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	defer edges.Close()
	const at = schemas.Millis(1_763_700_000_000)
	var changes []*schemas.Transition
	for user := schemas.UserID(1); user <= 2; user++ {
		changes = append(changes,
			&schemas.Transition{User: user, From: schemas.Offline, To: schemas.Online, At: at, LastSeen: at, LastActive: at, Cause: schemas.FirstBeat,
				Device: 7, Kinds: schemas.SetOfKinds(schemas.Web), Visibility: schemas.Everyone, Version: 5, Policy: "p"},
			&schemas.Transition{User: user, From: schemas.Online, To: schemas.Online, At: at + 1, LastSeen: at, LastActive: at,
				Cause: schemas.VisibilityChange, Kinds: schemas.SetOfKinds(schemas.Web), Visibility: schemas.Nobody, Version: 6, Policy: "p"})
	}
	if err := s.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 9, Changes: changes}); err != nil {
		t.Fatal(err)
	}
	if _, err := edges.Add(t.Context(), []graph.Edge{{User: 1, Follower: 2}, {User: 3, Follower: 1}, {User: 2, Follower: 3}}); err != nil {
		t.Fatal(err)
	}
	export := func(user schemas.UserID) []string {
		var out strings.Builder
		if err := Export(t.Context(), s, edges, user, &out); err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}
	lines := export(1)
	for i, want := range []string{
		`"type":"presence","user_id":"1","state":"online",`, `"type":"change",`, `"cause":"visibility"`,
		`{"type":"follower","user_id":"2"}`, `{"type":"follows","user_id":"3"}`,
	} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("line %d is not %s:\n%s", i, want, strings.Join(lines, "\n"))
		}
	}
	if len(lines) != 5 {
		t.Errorf("%d lines", len(lines))
	}
	if lines := export(9); len(lines) != 1 || lines[0] != "" {
		t.Errorf("of an unknown user: %v", lines)
	}
}
