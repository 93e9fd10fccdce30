package query_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

var staleSince = regexp.MustCompile(`"stale_since":"[^"]*"`)

func TestAnErasedUserLooksNeverSeenWhileAndAfterRedisIsRebuilt(t *testing.T) {
	for _, after := range []redisview.Progress{{Epoch: 2, Watermark: 0, Rebuilding: true}, {Epoch: 2}} {
		w := newWorld(t, redistest.Mini(t))
		now := schemas.MillisOf(time.Now())
		w.upTo(t, now+60_000)
		w.happen(t, &schemas.Transition{User: 7, From: schemas.Offline, To: schemas.Online, At: now - 9000, LastSeen: now - 9000,
			LastActive: now - 9000, Cause: schemas.FirstBeat, Visibility: schemas.Everyone, Version: 5})
		erasure := erases(7, 6, now, now+1)
		w.inRedis(t, erasure)
		after.Watermark = now + 60_000
		for p := range w.progress {
			moved := must.Get(w.view.Move(t.Context(), int32(p), w.progress[p], after))(t)
			after.Watermark = moved.Watermark
			if moved != after {
				t.Fatal(moved)
			}
			w.progress[p] = after
		}
		for _, stage := range []string{"before", "after"} {
			_, never := w.get(t, "/presence/8")
			status, got := w.get(t, "/presence/7")
			never, got = staleSince.ReplaceAllString(never, ""), staleSince.ReplaceAllString(got, "") // the instant of the read
			if status != http.StatusOK || got != strings.Replace(never, `"user_id":"8"`, `"user_id":"7"`, 1) {
				t.Errorf("%+v %s the store has it: %d %s, want it as %s", after, stage, status, got, never)
			}
			if stage == "before" {
				w.durably(t, erasure)
			}
		}
	}
}
