package query_test

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/schemas"
)

func TestANewUserHasNoDevicesOfTheErasedOne(t *testing.T) {
	w := newWorld(t, redistest.Mini(t))
	now := schemas.MillisOf(time.Now())
	w.happen(t, arrives(1, 10, now-3_600_000))
	w.upTo(t, now)
	w.hear(t, 1, 20, now-300_000)
	erasure := erases(1, 30, now-200_000, now+1e9)
	w.durably(t, erasure)
	w.inRedis(t, erasure)
	rows := must.Get(w.view.Seen(t.Context(), []schemas.UserID{1}))(t)
	if rows[0].At != 0 {
		t.Errorf("after the erasure Redis has %+v", rows[0])
	}
	w.happen(t, arrives(1, 40, now-60_000))
	w.hear(t, 1, 50, now-1000)
	_, a := w.seen(t, "/presence/1?devices=true")
	for _, d := range *a.Devices {
		if d.Since < now-200_000 {
			t.Errorf("the new user's device is there since before the erasure: %+v", d)
		}
	}
}
