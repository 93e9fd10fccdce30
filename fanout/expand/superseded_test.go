package expand

import (
	"testing"

	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// The status knows of a hide before the planner comes to it.
func TestNothingIsPlannedOfAHiddenUserByALaterVersion(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	one, other := s.comes(small), s.comes(star)
	s.see(t, shown.Entry{User: small, Hidden: s.version + 1}, shown.Entry{User: star, Hidden: s.version + 1})
	if outs := s.plan(t, one, other); len(outs) != 0 {
		t.Errorf("%d records about those who hide", len(outs))
	}
	s.see(t, shown.Entry{User: small, Erased: s.version + 1}, shown.Entry{User: star, Erased: s.version + 1})
	if outs := s.plan(t, one, other); len(outs) != 0 {
		t.Errorf("%d records about erased users", len(outs))
	}
}

// Newest hears of a job a moment later than the worker may.
func TestOfTwoVersionsInOneBatchTheOlderIsSuperseded(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	older, newer := s.comes(star), s.comes(star)
	var jobs []schemas.Outgoing
	for _, c := range []*schemas.Transition{older, newer} {
		jobs = append(jobs, s.job(&schemas.FanoutJob{Kind: schemas.RangeJob, Transition: c, Through: 5_000, Chunks: 1}))
	}
	got := told(t, s.work(t, jobs))
	if len(got[older.Version]) != 0 || len(got[newer.Version]) == 0 {
		t.Errorf("%d are told of the older, %d of the newer", len(got[older.Version]), len(got[newer.Version]))
	}
}

func TestNothingIsPlannedOfWhatOneAHiddenUserDoes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	one, other := s.comes(small), s.comes(star)
	one.Visibility, other.Visibility = schemas.Nobody, schemas.Nobody
	if got := told(t, s.work(t, s.plan(t, one, other))); len(got) != 0 {
		t.Errorf("%d versions are told of", len(got))
	}
}

// A hide reaches followers as a leaving although its user goes on, hidden, before the
// planner and the workers come to it; what was before it does not.
func TestIfHiddenUsersAreShownAsOfflineHidingIsDeliveredAsADeparture(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Config.HiddenOffline = true
	var before, all []*schemas.Transition
	for _, user := range []schemas.UserID{small, star} {
		before = append(before, s.comes(user))
		hide, goesOn := s.hides(user), s.comes(user)
		hide.From, goesOn.Visibility = schemas.Online, schemas.Nobody
		all = append(all, hide, goesOn)
		s.see(t, shown.Entry{User: user, Hidden: goesOn.Version})
	}
	if got := told(t, s.work(t, s.plan(t, before...))); len(got) != 0 {
		t.Errorf("of a user hidden by now %d versions are told", len(got))
	}
	for _, o := range s.work(t, s.plan(t, all...)) {
		d := must.Get(schemas.DecodeDelivery(o.Value))(t)
		if c := d.Transition; c.From != schemas.Online || c.To != schemas.Offline || c.Cause != schemas.Bye || c.Visibility != schemas.Everyone {
			t.Errorf("told: %+v", c)
		}
	}
	got := told(t, s.work(t, s.plan(t, all...)))
	if len(got) != 2 || len(got[all[0].Version]) == 0 || len(got[all[2].Version]) == 0 {
		t.Errorf("told of the versions %v, the hides are %d and %d", got, all[0].Version, all[2].Version)
	}
}
