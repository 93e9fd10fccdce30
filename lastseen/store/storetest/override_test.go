package storetest

import (
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// overriding is a log of user 1 who comes online, and whose override and cause become those given, a second apart.
func overriding(changes ...schemas.Transition) []*schemas.Transition {
	log := visits(1, Start)
	for i := range changes {
		was, t := log[i], &changes[i]
		t.User, t.From, t.At, t.Version = 1, was.To, was.At+1000, schemas.NewVersion(1, int64(i+1), 0)
		if t.Visibility = schemas.Everyone; t.Override.State == schemas.Invisible {
			t.Visibility = schemas.Nobody
		}
		log = append(log, t)
	}
	return log
}

var (
	dnd  = schemas.Override{State: schemas.DoNotDisturb, Until: Start + day, Note: "in a \"meeting\", 会議"}
	gone = schemas.Override{State: schemas.SetAway, Automatic: schemas.Online}
	idle = schemas.Override{State: schemas.SetAway, Automatic: schemas.Away}
	away = func(cause schemas.Cause, o schemas.Override) schemas.Transition {
		return schemas.Transition{To: schemas.Away, Cause: cause, Override: o}
	}
	unseen = away(schemas.VisibilityChange, schemas.Override{State: schemas.Invisible, Hides: true})
	showed = away(schemas.VisibilityChange, dnd)
)

func overridesAreKept(t *testing.T, s Store) {
	log := overriding(schemas.Transition{To: schemas.Online, Cause: schemas.OverrideSet, Override: dnd},
		schemas.Transition{To: schemas.Online, Cause: schemas.OverrideOver},
		away(schemas.OverrideSet, gone), away(schemas.Idle, idle), unseen, showed)
	for i := range log {
		must.Do(t, s.Append(t.Context(), store.Batch{Expected: int64(i - 1), Next: int64(i), Changes: log[i : i+1]}))
		wantUsers(t, s, log[:i+1])
		wantLog(t, s, log[:i+1])
		if now := asOf(t, s, log[i].At, 1)[1]; now.Override != log[i].Override {
			t.Errorf("after change %d the override is %+v, want %+v", i, now.Override, log[i].Override)
		}
	}
	wantChanges(t, s, store.Range{}, log)
	newest := must.Get(s.Users(t.Context(), []schemas.UserID{1}))(t)[1]
	told := must.Get(s.History(t.Context(), store.HistoryQuery{User: 1, Limit: 1}))(t).Changes[0].Override
	if newest.Override != dnd || told != (schemas.Override{State: dnd.State}) {
		t.Errorf("the user has %+v, others are told %+v", newest.Override, told)
	}
	missed := store.MissedQuery{Users: []schemas.UserID{1}, After: []schemas.Version{0}, Limit: 9}
	wantMissed(t, s, missed, visible(t, log)[1])
	erased := erasing(1, Start+day, 100)
	back := visits(1, Start+2*day)
	back[0].Version = schemas.NewVersion(1, 200, 0)
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: 6, Next: 8, Changes: []*schemas.Transition{erased, back[0]}}))
	wantUsers(t, s, back)
	wantChanges(t, s, store.Range{}, back)
}

// overridesOfThePast has an offline user whose override is set and ends, days before and after the instants.
func overridesOfThePast(t *testing.T, s Store) {
	offline := func(cause schemas.Cause, o schemas.Override) schemas.Transition {
		return schemas.Transition{To: schemas.Offline, Cause: cause, Override: o}
	}
	log := overriding(offline(schemas.Bye, schemas.Override{}), offline(schemas.OverrideSet, dnd))
	for i := range log {
		log[i].At += schemas.Millis(i) * 5 * day
	}
	write(t, s, log)
	for i, change := range log {
		is := asOf(t, s, change.At+4*day, 1)[1]
		if is.Override != change.Override || is.To != change.To || is.At != change.At {
			t.Errorf("4 days after change %d was in force\n%+v", i, is.Transition)
		}
	}
}
