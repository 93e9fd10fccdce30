package query_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	sealed "github.com/stillhere/stillhere/internal/cursor"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/schemas"
)

func TestAnErasedUserLooksLikeOneNeverSeenBeforeTheStoreHasErasedIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	now := schemas.MillisOf(time.Now())
	w.upTo(t, now+60_000)
	w.happen(t, &schemas.Transition{User: 7, From: schemas.Offline, To: schemas.Online, At: now - 9000, LastSeen: now - 9000,
		Cause: schemas.FirstBeat, Visibility: schemas.Everyone, Version: 5})
	erasure := erases(7, 6, now, now+1)
	w.inRedis(t, erasure)
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

func TestAPollerLearnsOnceThatAUserWasErased(t *testing.T) {
	t.Parallel()
	server := redistest.Mini(t)
	w := newWorld(t, server)
	today := now()
	w.upTo(t, today)
	w.happen(t, arrives(7, inEpoch(1, 5), today), arrives(8, inEpoch(1, 6), today))
	cursor := w.since(t, "", 7, 8).Cursor
	erasure := erases(7, inEpoch(1, 7), today, today+1)
	w.inRedis(t, erasure)
	learns := func(when string, version schemas.Version) string {
		t.Helper()
		p := w.since(t, cursor, 7, 8)
		wantChanges(t, p, version)
		if c := p.Changes[0]; c.UserID != 7 || *c.State != "offline" || c.LastSeenAt != 0 || c.Since != 0 || p.StaleSince != 0 {
			t.Errorf("%s the reader gets %+v, stale since %s", when, c, p.StaleSince)
		}
		wantChanges(t, w.since(t, p.Cursor, 7, 8))
		stream, _, err := w.reader.Missed(t.Context(), "", []schemas.UserID{7}, sealed.Position{At: today, Versions: []schemas.Version{inEpoch(1, 5)}})
		if err != nil || !reflect.DeepEqual(stream, p.Changes) {
			t.Errorf("%s a stream that resumes gets %+v (%v)", when, stream, err)
		}
		return p.Cursor
	}
	learns("before the store has it", erasure.Version)
	w.durably(t, erasure)
	learnt := learns("after the store has it", erasure.Version)
	must.Get(server.Do("DEL presence:{7}"))(t)
	wantChanges(t, w.since(t, learnt, 7, 8))
	learns("after Redis has forgotten it", 0)
	w.happen(t, arrives(7, inEpoch(1, 9), today))
	wantChanges(t, w.since(t, learnt, 7, 8), inEpoch(1, 9))
}
