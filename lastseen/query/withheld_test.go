package query_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/schemas"
)

type noneOf map[schemas.UserID]bool

func (n noneOf) Refused(_ *http.Request, users []schemas.UserID) (refused []schemas.UserID, err error) {
	for _, u := range users {
		if n[u] {
			refused = append(refused, u)
		}
	}
	return refused, nil
}
func (n noneOf) MayReadHistory(*http.Request, schemas.UserID) (bool, error) { return true, nil }

func TestAUserWhoIsWithheldBehindAFullPageIsStillNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	today := now()
	w.upTo(t, today)
	w.happen(t, arrives(1, inEpoch(1, 1), today), arrives(2, inEpoch(1, 2), today))
	refused := noneOf{}
	w.server.SetAccess(refused)
	p := w.since(t, "", 1, 2)
	var log []*schemas.Transition
	for i := range 1000 {
		at := today + schemas.Millis(i)
		if i%2 == 0 {
			log = append(log, leaves(1, inEpoch(1, int64(i)+3), at))
		} else {
			log = append(log, arrives(1, inEpoch(1, int64(i)+3), at))
		}
	}
	w.happen(t, log...)
	refused[2] = true
	var users []schemas.UserID
	for more := true; more; more = p.More {
		p = w.since(t, p.Cursor, 1, 2)
		for _, c := range p.Changes {
			users = append(users, c.UserID)
		}
	}
	if !slices.Contains(users, 2) {
		t.Errorf("%d changes, more %v, none says that user 2 is withheld", len(users), p.More)
	}
}
