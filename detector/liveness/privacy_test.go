package liveness

import (
	"slices"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

// private is a machine with a clock of its own.
type private struct {
	*testing.T
	*Machine
	offset int64
}

func (m *private) apply(at schemas.Millis, value []byte) (statuses []schemas.Status) {
	m.Helper()
	var f schemas.Frame
	if err := f.Decode(value); err != nil {
		m.Fatal(err)
	}
	var out Output
	m.Apply(m.offset, at, &f, &out)
	m.offset++
	return out.Statuses
}

// The user is offline, so only a privacy record is left of the show, in memory and in the status.
func TestAShowIsForgottenWhenNoReportCanHaveATimeBeforeIt(t *testing.T) {
	t.Parallel()
	const at = schemas.Millis(1_763_700_000_000)
	m := private{T: t, Machine: New(Defaults(), 0, 1, 1, 0)}
	m.apply(at, schemas.AppendVisibility(nil, 42, schemas.Nobody))
	shown := m.apply(at+1000, schemas.AppendVisibility(nil, 42, schemas.Everyone))
	if n := len(shown); n != 1 || shown[0].ShownAt != at+1000 || shown[0].Tombstone() {
		t.Fatalf("the show writes %+v", shown)
	}
	var last []schemas.Status
	for now := at + 1000; now < at+1000+showMatters; now += 60_000_000 {
		last = append(last, m.apply(now, schemas.AppendTick(nil))...)
	}
	for _, s := range last {
		if s.ShownAt != at+1000 {
			t.Errorf("forgotten too early: %+v", s)
		}
	}
	last = m.apply(at+1000+showMatters+privacyEvery, schemas.AppendTick(nil))
	if len(last) != 1 || last[0].User != 42 || !last[0].Tombstone() || len(m.privacy) != 0 {
		t.Errorf("a month later %+v, %d privacy records", last, len(m.privacy))
	}
}

func TestStatusesNameAnErasureUntilNothingOlderIsWithheld(t *testing.T) {
	t.Parallel()
	const at = schemas.Millis(1_763_700_000_000)
	const until, gone = at + 20*86_400_000, at + 40*86_400_000
	m := private{T: t, Machine: New(Defaults(), 0, 1, 1, 0)}
	beat := func(now schemas.Millis) []schemas.Status {
		return m.apply(now, schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: 42, Device: 7, Kind: schemas.Web}}))
	}
	beat(at)
	m.apply(at+1000, schemas.AppendVisibility(nil, 42, schemas.Nobody))
	erased := schemas.NewVersion(1, m.offset, 0)
	names := func(what string, got []schemas.Status, version schemas.Version) {
		t.Helper()
		if len(got) == 0 || got[len(got)-1].ErasedVersion != version {
			t.Errorf("%s: %+v, want the erasure %d", what, got, version)
		}
	}
	names("the erasure", m.apply(at+2000, schemas.AppendErasure(nil, 42, schemas.Name{}, gone, until, false)), erased)
	names("a new user", beat(at+3000), erased)
	names("who hides", m.apply(at+4000, schemas.AppendVisibility(nil, 42, schemas.Nobody)), erased)
	for now := until - 900_000; now < until; now += 5000 {
		m.apply(now, schemas.AppendTick(nil)) // who is present is remembered
	}
	names("a month later", m.apply(until, schemas.AppendTick(nil)), 0)
	if s := m.apply(until+1000, schemas.AppendVisibility(nil, 42, schemas.Everyone)); len(m.privacy) != 1 || s[0].ShownAt != until+1000 {
		t.Errorf("the hidden user was forgotten with the privacy record: %+v", s)
	}
	names("the second erasure", m.apply(until+2000, schemas.AppendErasure(nil, 42, schemas.Name{}, gone, until+10_000, false)),
		schemas.NewVersion(1, m.offset-1, 0))
	for at := until + 10_000; at < until+80_000; at += 5000 {
		m.apply(at, schemas.AppendTick(nil)) // the instant of the erasure is remembered for a minute
	}
	last := m.apply(until+80_000+privacyEvery, schemas.AppendTick(nil))
	if len(last) != 1 || !last[0].Tombstone() || len(m.privacy) != 0 || m.Users() != 0 {
		t.Errorf("in the end %+v, %d privacy records, %d users", last, len(m.privacy), m.Users())
	}
}

func TestMachinesForgetShowsInOneOrderAndAUserWhoHidesOftenHasOnePlace(t *testing.T) {
	t.Parallel()
	const at, users, times = schemas.Millis(1_763_700_000_000), 50, 20
	forgets := func() (forgotten []schemas.UserID) {
		m := private{T: t, Machine: New(Defaults(), 0, 1, 1, 0)}
		now := at
		for i := range schemas.UserID(users * times) {
			now += 1000
			m.apply(now, schemas.AppendVisibility(nil, 1+i*7%users, schemas.Nobody))
			m.apply(now, schemas.AppendVisibility(nil, 1+i*7%users, schemas.Everyone))
		}
		if len(m.fading) != users {
			t.Errorf("%d users have %d places", users, len(m.fading))
		}
		for until := now + showMatters + 2*privacyEvery; now < until; now += privacyEvery {
			for _, s := range m.apply(now, schemas.AppendTick(nil)) {
				if s.Tombstone() {
					forgotten = append(forgotten, s.User)
				}
			}
		}
		if len(forgotten) != users || len(m.privacy)+len(m.fading) != 0 {
			t.Errorf("%d are forgotten, %d are left, %d places", len(forgotten), len(m.privacy), len(m.fading))
		}
		return forgotten
	}
	if one, other := forgets(), forgets(); !slices.Equal(one, other) {
		t.Errorf("one machine forgets %v, another %v", one, other)
	}
}
