package query_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func TestAnErasedUserLooksLikeOneNeverSeenBeforeTheStoreHasErasedIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	now := schemas.MillisOf(time.Now())
	w.upTo(t, now+60_000)
	w.happen(t, &schemas.Transition{User: 7, From: schemas.Offline, To: schemas.Online, At: now - 9000, LastSeen: now - 9000,
		Cause: schemas.FirstBeat, Visibility: schemas.Everyone, Version: 5})
	erasure := &schemas.Transition{User: 7, From: schemas.Online, To: schemas.Offline, At: now, Cause: schemas.Erased,
		Visibility: schemas.Everyone, Version: 6, ErasedUntil: now + 1}
	_, err := w.view.Write(t.Context(), 1, store.Fold([]*schemas.Transition{erasure}))
	must(t, err)
	_, never := w.get(t, "/presence/8")
	for _, stage := range []string{"before", "after"} {
		status, got := w.get(t, "/presence/7")
		if status != http.StatusOK || got != strings.Replace(never, `"user_id":"8"`, `"user_id":"7"`, 1) {
			t.Errorf("%s the store has it: %d %s, want it as %s", stage, status, got, never)
		}
		if stage == "before" {
			w.durably(t, erasure)
		}
	}
}
