package live_test

import (
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/schemas"
)

// Anna has been away for so long that the detector does not know any more when she was last here.
func TestViewersOfAnOfflineUserLearnOfTimesAsFarAsTheUserShowsThem(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t))
	anna := &person{id: 1}
	g.happen(anna.becomes(schemas.Online), anna.becomes(schemas.Offline))
	chooses := func(choice schemas.LastSeen) *schemas.Transition {
		tr := anna.step(0, schemas.LastSeenSet)
		tr.LastSeen, tr.LastActive, tr.Kinds, tr.Override.LastSeen = 0, 0, 0, choice
		return tr
	}
	p := g.dial()
	exact := p.watch(1)[0]
	for i, choice := range []schemas.LastSeen{schemas.SeenCoarsely, schemas.SeenNever, schemas.SeenCoarsely, 0, schemas.SeenNever, 0} {
		tr := chooses(choice)
		if i >= 4 { // together with an override that waited
			tr.Cause = schemas.OverrideSet
		}
		tr.At += 400 * 24 * 60 * 60 * 1000
		g.happen(tr)
		want := g.view.one(t, 1)
		for u := p.news(); u.LastSeen != want.LastSeen || u.LastSeenAt != want.LastSeenAt || u.LastActiveAt != want.LastActiveAt; u = p.news() {
			if u.LastSeenAt != 0 || u.LastActiveAt != 0 {
				t.Errorf("after the change to %s comes %+v", schemas.LastSeenWord(choice), u)
			}
		}
		sameJSON(t, g.dial().watch(1)[0], want)
	}
	again := g.view.one(t, 1)
	if again.LastSeenAt == 0 || again.LastSeenAt != exact.LastSeenAt || again.Since == 0 {
		t.Errorf("of whoever shows times again others see %+v, before %+v", again, exact)
	}
}
