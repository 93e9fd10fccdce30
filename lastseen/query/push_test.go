package query_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/schemas"
)

func TestAPushIsHeldWhileAnotherKindThanMobileIsInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	w.upTo(t, now())
	w.server.SetViewer(func(r *http.Request) query.Viewer { return query.Viewer{Admin: r.URL.Query().Get("user_id") == "9"} })
	both := schemas.SetOfKinds(schemas.Mobile, schemas.Desktop)
	uses := func(user schemas.UserID, active ...schemas.DeviceKind) *schemas.Transition {
		c := arrives(user, 1, day)
		c.Kinds = both.WithActiveOf(schemas.SetOfKinds(active...))
		return c
	}
	w.happen(t, as(schemas.SeenNever, uses(1, schemas.Desktop)), uses(2, schemas.Mobile), uses(3, schemas.Mobile, schemas.Desktop), hidden(uses(4, schemas.Desktop)),
		leaves(5, 2, day))
	const path, send = "/presence/push?user_ids=1,2,3,4,5,6", `{"1":"send","2":"send","3":"send","4":"send","5":"send","6":"send"}`
	w.want(t, path, send) // the policy is not known
	w.server.Follow(func(string) time.Duration { return 5 * time.Minute })
	for _, within := range []string{"", "&within=5m", "&within=1h"} {
		w.want(t, path+within, `{"1":"hold","2":"send","3":"hold","4":"send","5":"send","6":"send"}`)
	}
	w.want(t, path+"&within=299s", send)
	w.want(t, path+"&user_id=9", `{"1":"hold","2":"send","3":"hold","4":"hold","5":"send","6":"send"}`)
	for _, bad := range []string{"&within=soon", "&within=-5m", "&within=1h30m", "&within=", "&within=5m&within=5m"} {
		if status, body := w.get(t, path+bad); status != http.StatusBadRequest {
			t.Errorf("%s is answered with %d %s", bad, status, body)
		}
	}
	w.server.Follow(func(string) time.Duration { return 0 })
	w.want(t, path+"&within=1h", send)
}

func TestAPushIsSentWhileTheStateMayBeOld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	w.upTo(t, now()-schemas.Millis(time.Hour.Milliseconds()))
	comes := arrives(1, 1, day)
	comes.Kinds = schemas.SetOfKinds(schemas.Web).As(schemas.Online)
	w.happen(t, comes)
	w.server.Follow(func(string) time.Duration { return 5 * time.Minute })
	w.want(t, "/presence/push?user_ids=1", `{"1":"send"}`)
}
