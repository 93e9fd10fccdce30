package expand

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// lists are whom users deny.
type lists struct {
	mu   sync.Mutex // protects what follows
	of   map[schemas.UserID]shown.Denied
	fail error
}

func (l *lists) Denied(_ context.Context, user schemas.UserID, at schemas.Version) (shown.Denied, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if list := l.of[user]; l.fail != nil || list.Version >= at {
		return list, l.fail
	}
	return shown.Denied{}, shown.ErrBehind
}

// deny makes the list of a user one of viewers, since then.
func (l *lists) deny(user schemas.UserID, version schemas.Version, since schemas.Millis, viewers ...schemas.UserID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := shown.Denied{Version: version, Viewers: maps.Clone(l.of[user].Viewers)}
	if list.Viewers == nil {
		list.Viewers = map[schemas.UserID]schemas.Millis{}
	}
	for _, viewer := range viewers {
		list.Viewers[viewer] = since
	}
	l.of[user] = list
}

// denies is the next transition of an online user, who adds and removes viewers.
func (s *stage) denies(t *testing.T, user schemas.UserID, add, remove []schemas.UserID) *schemas.Transition {
	t.Helper()
	c := s.comes(user)
	c.From, c.Cause, c.Override.Audience = c.To, schemas.AudienceSet, c.Version
	c.Denies = must.Get(schemas.NewDenies("denies", user, add, remove))(t)
	return c
}

// after is the next transition of a user whose list has the version.
func (s *stage) after(user schemas.UserID, version schemas.Version) *schemas.Transition {
	c := s.comes(user)
	c.Override.Audience = version
	return c
}

// inOrder checks that no follower is told of a version before an older one, in each partition, and nobody in two.
func inOrder(t *testing.T, outs []schemas.Outgoing) map[schemas.UserID][]schemas.Version {
	t.Helper()
	got, where := map[schemas.UserID][]schemas.Version{}, map[schemas.UserID]int32{}
	for _, o := range outs {
		d := must.Get(schemas.DecodeDelivery(o.Value))(t)
		for _, r := range d.Recipients {
			if in, known := where[r]; known && in != o.Partition {
				t.Errorf("%d is told in the partitions %d and %d", r, in, o.Partition)
			}
			where[r], got[r] = o.Partition, append(got[r], d.Transition.Version)
			if !slices.IsSorted(got[r]) {
				t.Errorf("%d is told of the versions %v", r, got[r])
			}
		}
	}
	return got
}

func TestADeniedFollowerIsNoRecipient(t *testing.T) {
	t.Parallel()
	for _, everyone := range []bool{false, true} {
		for _, user := range []schemas.UserID{small, star} {
			s := newStage(t)
			s.Config.Everyone, s.Names = everyone, &calls{}
			before := s.comes(user)
			want := told(t, s.work(t, s.plan(t, before)))[before.Version]
			s.lists.deny(user, 2, 1, want[0])
			now := s.after(user, 2)
			if got := told(t, s.work(t, s.plan(t, now)))[now.Version]; !slices.Equal(got, want[1:]) {
				t.Errorf("everyone %t, user %d: %d of %d followers are told", everyone, user, len(got), len(want))
			}
		}
	}
}

func TestAListThatIsBehindHoldsItsUserBackAndNobodyElse(t *testing.T) {
	t.Parallel()
	s, clock, take := paced(t)
	s.Config.Gap = 0
	fan := s.graph.id(star, 0)
	s.graph.counts[5], s.graph.counts[7] = 2, 2 // they have the followers 14 and 24, 16 and 26
	waits := s.denies(t, 5, nil, []schemas.UserID{14})
	got := take(0, waits, s.after(5, waits.Version), s.after(star, 2), s.comes(7))
	if len(got) != 1 || len(got[4]) != 2 {
		t.Errorf("told of %v, want version 4 alone", got)
	}
	if first, kept := s.planner.Retained(); !kept || first != 0 {
		t.Errorf("kept from %d, %t", first, kept)
	}
	// A restart reads them again.
	at := stream.Assignment{LogEnd: 4, Metadata: s.planner.Checkpoint()}
	s.planner = s.NewPlanner()
	s.planner.now = func() time.Time { return *clock }
	must.Do(t, s.planner.Restore(t.Context(), at, nil))
	s.version = 0
	again := []*schemas.Transition{s.denies(t, 5, nil, []schemas.UserID{14}), s.after(5, 1), s.after(star, 2), s.comes(7)}
	if got := take(0, again...); len(got) != 0 {
		t.Errorf("told of %v", got)
	}
	s.lists.deny(star, 2, 1, fan)
	*clock = s.planner.Due()
	if got := take(4); len(got) != 1 || len(got[3]) != len(s.here(star))-1 || slices.Contains(got[3], fan) {
		t.Errorf("of the celebrity %d are told", len(got[3]))
	}
	s.lists.deny(5, 1, 1, 24)
	// The list is there when the user changes again, before the transitions are read again.
	if got := take(4, s.after(5, 1)); len(got) != 2 || !slices.Equal(got[1], []schemas.UserID{14}) || !slices.Equal(got[5], []schemas.UserID{14}) {
		t.Errorf("told of %v, want 14 of 1 and 5", got)
	}
	take(5, s.after(5, s.version+1))
	*clock = clock.Add(s.Config.MaxAge + 2*time.Second)
	if take(6); !s.planner.Due().IsZero() {
		t.Error("a transition waits for ever")
	}
}

// behind are transitions of one user more than may wait, each with a list that nobody has yet.
func (s *stage) behind() (records []schemas.Record) {
	for i := range schemas.UserID(maxDelayed + 1) {
		s.graph.counts[100+i] = 1
		c := s.after(100+i, 1<<40)
		records = append(records, schemas.Record{Offset: int64(i), Time: c.At, Value: c.Encode()})
	}
	return records
}

func TestABatchComesAgainIfNoListCanBeReadOrMoreTransitionsThanMayWaitAreBehind(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	records := s.behind()
	job := s.job(&schemas.FanoutJob{Kind: schemas.RangeJob, Transition: s.after(star, 1<<40), Through: 5_000, Chunks: 1})
	var out stream.Outbox
	for _, fail := range []error{errors.New("no Redis"), shown.ErrBehind} {
		if s.lists.fail = fail; errors.Is(fail, shown.ErrBehind) {
			s.lists.fail = nil
		}
		if err := s.planner.HandleBatch(t.Context(), records, &out); !errors.Is(err, fail) || len(s.planner.delayed.waiting) != 0 {
			t.Errorf("%v, want %v; %d wait", err, fail, len(s.planner.delayed.waiting))
		}
		if err := s.worker.HandleBatch(t.Context(), []schemas.Record{{Value: job.Value}}, &out); !errors.Is(err, fail) {
			t.Errorf("worker: %v, want %v", err, fail)
		}
	}
	must.Do(t, s.planner.HandleBatch(t.Context(), records[:maxDelayed], &out))
	s.planner.now = func() time.Time { return time.Now().Add(behindFor) }
	must.Do(t, s.planner.HandleBatch(t.Context(), nil, &out))
	for i := range schemas.UserID(maxDelayed) {
		s.lists.deny(100+i, 1<<40, 1)
	}
	s.planner.now = func() time.Time { return time.Now().Add(2 * behindFor) }
	must.Do(t, s.planner.HandleBatch(t.Context(), nil, &out))
	if n := len(s.planner.delayed.waiting); n != 0 {
		t.Errorf("%d wait", n)
	}
}

func TestTransitionsThatWaitForAListUntilTheyAreOldMakeRoomForOthers(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	records := s.behind()
	var out stream.Outbox
	must.Do(t, s.planner.HandleBatch(t.Context(), records[:maxDelayed], &out))
	later := time.Now().Add(s.planner.deps.Config.MaxAge + time.Minute)
	s.planner.now = func() time.Time { return later }
	fresh := must.Get(schemas.DecodeTransition(records[maxDelayed].Value))(t)
	fresh.At = schemas.MillisOf(later)
	must.Do(t, s.planner.HandleBatch(t.Context(), []schemas.Record{{Offset: maxDelayed, Time: fresh.At, Value: fresh.Encode()}}, &out))
	if n := len(s.planner.delayed.waiting); n != 1 {
		t.Errorf("%d wait, want the fresh one", n)
	}
}

func TestAViewerDeniedDuringAnExpansionIsNotToldFromThenOn(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	change := s.comes(star) // who has denied nobody yet
	s.graph.onPage = func(after schemas.UserID) {
		if after == 100_000 { // the second page of three
			s.lists.deny(star, 2, 1, 50, 100_010, 250_000)
		}
	}
	job := s.job(&schemas.FanoutJob{Kind: schemas.RangeJob, Transition: change, Through: 250_000, Chunks: 1})
	want := slices.DeleteFunc(s.here(star), func(id schemas.UserID) bool { return id == 100_010 || id == 250_000 })
	if got := told(t, s.work(t, []schemas.Outgoing{job}))[change.Version]; !slices.Equal(got, want) {
		t.Errorf("%d are told, want %d", len(got), len(want))
	}
}

// A viewer who is denied no longer, one who is denied since, and one who was denied before, of two users.
func TestViewersOfAListThatChangesGetHowTheUserLooksToThem(t *testing.T) {
	t.Parallel()
	for _, user := range []schemas.UserID{small, star} {
		for _, hidden := range []bool{false, true} {
			for _, everyone := range []bool{false, true} {
				t.Run(fmt.Sprint("user ", user, ", hidden as offline ", hidden, ", everyone ", everyone), func(t *testing.T) {
					t.Parallel()
					s := newStage(t)
					s.Names, s.Config.HiddenOffline, s.Config.Everyone = &calls{}, hidden, everyone
					ids := make([]schemas.UserID, 5)
					for i := range ids {
						ids[i] = s.graph.id(user, 900+i*50)
						s.see(t, shown.Entry{User: ids[i], Present: i != 2 && i != 4})
					}
					none := schemas.UserID(999_999)
					c := s.denies(t, user, []schemas.UserID{ids[0], ids[1], ids[2], none}, []schemas.UserID{ids[3], ids[4], none + 1})
					s.lists.deny(user, c.Version, c.At-1, ids[1])
					s.lists.deny(user, c.Version, c.At, ids[0], ids[2], none)
					got := map[string][]schemas.UserID{}
					for _, o := range s.work(t, s.plan(t, c)) {
						d := must.Get(schemas.DecodeDelivery(o.Value))(t)
						what := fmt.Sprint(d.Transition.From, d.Transition.To, d.Transition.Cause)
						got[what] = append(got[what], d.Recipients...)
						if d.Transition.Denies != "" || d.Transition.Version != c.Version || d.Names[0] != fmt.Sprint("user ", d.Recipients[0]) {
							t.Errorf("told: %+v of %q", d.Transition, d.Names)
						}
					}
					bye, show := []schemas.UserID{ids[0]}, []schemas.UserID{ids[3]}
					if everyone {
						bye, show = append(bye, ids[2]), append(show, ids[4])
					}
					want := map[string][]schemas.UserID{fmt.Sprint(schemas.Online, schemas.Online, schemas.VisibilityChange): show}
					if hidden {
						want = map[string][]schemas.UserID{fmt.Sprint(schemas.Offline, schemas.Online, schemas.FirstBeat): show,
							fmt.Sprint(schemas.Online, schemas.Offline, schemas.Bye): bye}
					}
					for _, some := range got {
						slices.Sort(some)
					}
					if !maps.EqualFunc(got, want, slices.Equal) {
						t.Errorf("told are %v, want %v", got, want)
					}
				})
			}
		}
	}
}

func TestOfAHiddenUsersListNobodyIsToldAndOfOneWhoHidesLaterOnlyThatTheUserIsOffline(t *testing.T) {
	t.Parallel()
	for _, user := range []schemas.UserID{small, star} {
		s := newStage(t)
		s.Config.HiddenOffline, s.Config.Everyone = true, true
		added, removed := s.graph.id(user, 0), s.graph.id(user, 1)
		c := s.denies(t, user, []schemas.UserID{added}, []schemas.UserID{removed})
		s.lists.deny(user, c.Version, c.At, added)
		s.see(t, shown.Entry{User: user, Hidden: c.Version + 1})
		if got := inOrder(t, s.work(t, s.plan(t, c))); len(got) != 1 || len(got[added]) != 1 {
			t.Errorf("told are %v, want %d", got, added)
		}
		c.Visibility = schemas.Nobody
		if outs := s.plan(t, c); len(outs) != 0 {
			t.Errorf("%d records of a hidden user", len(outs))
		}
	}
}

func TestAChangeOfTheListSupersedesAndDelaysNothingAndComesInOrder(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Config.HiddenOffline = true
	added, removed := s.graph.id(star, 0), s.graph.id(star, 24_000)
	first := s.plan(t, s.comes(star))
	var ranges stream.Outbox
	must.Do(t, s.worker.HandleBatch(t.Context(), []schemas.Record{{Value: first[0].Value}}, &ranges))
	c := s.denies(t, star, []schemas.UserID{added}, []schemas.UserID{removed})
	s.lists.deny(star, c.Version, c.At, added)
	set := s.plan(t, c)
	s.know(t, append(first, set...))
	must.Do(t, s.worker.HandleBatch(t.Context(), []schemas.Record{{Value: set[0].Value}}, &ranges))
	if n := len(ranges.Records); n != 23+2 {
		t.Fatalf("%d jobs, want 2 for the viewers", n)
	}
	place := map[string]int32{}
	for _, job := range ranges.Records {
		if at, known := place[string(job.Key)]; known && at != job.Partition {
			t.Errorf("the jobs of one range are in the partitions %d and %d", at, job.Partition)
		}
		place[string(job.Key)] = job.Partition
	}
	got := inOrder(t, s.work(t, ranges.Records))
	if len(got) != len(s.here(star)) || !slices.Equal(got[removed], []schemas.Version{1, 2}) || !slices.Equal(got[added], []schemas.Version{2}) {
		t.Errorf("%d are told; %v and %v", len(got), got[removed], got[added])
	}
	// Who is shown the user again by a later change needs none of this; who is not, does.
	later := s.plan(t, s.after(star, c.Version))
	s.know(t, later)
	got = inOrder(t, s.work(t, append(set, later...)))
	if !slices.Equal(got[added], []schemas.Version{2}) || !slices.Equal(got[removed], []schemas.Version{3}) {
		t.Errorf("with a later change are told %v and %v", got[added], got[removed])
	}
	// The jobs of a user who falls below the limit may be running.
	s.graph.counts[star] = 100
	c = s.denies(t, star, nil, []schemas.UserID{s.graph.id(star, 1)})
	s.lists.deny(star, c.Version, c.At)
	if outs := s.plan(t, c); len(outs) != 1 || outs[0].Topic != schemas.Fanout {
		t.Errorf("%d records, want a job", len(outs))
	}
}

func TestWhatWaitsIsDeliveredBeforeAChangeOfTheListAndLaterChangesAreNotDelayedByIt(t *testing.T) {
	t.Parallel()
	for _, user := range []schemas.UserID{small, star} {
		s, clock, take := paced(t)
		fan := s.graph.id(user, 0)
		s.see(t, shown.Entry{User: fan, Present: true})
		take(0, s.comes(user))
		if got := take(1, s.comes(user)); len(got) != 0 {
			t.Fatalf("told of %v", got)
		}
		c := s.denies(t, user, nil, []schemas.UserID{fan})
		s.lists.deny(user, c.Version, c.At)
		if got := take(2, c); len(got) != 2 || !slices.Contains(got[2], fan) || !slices.Equal(got[3], []schemas.UserID{fan}) {
			t.Errorf("told of %d versions, of the list %v", len(got), got[3])
		}
		*clock = clock.Add(s.Config.Gap)
		c = s.denies(t, user, nil, []schemas.UserID{fan})
		s.lists.deny(user, c.Version, c.At)
		take(3, c)
		if got := take(4, s.after(user, c.Version)); len(got[5]) == 0 {
			t.Error("the next change waits")
		}
		// In one batch, the changes around it.
		c = s.denies(t, user, nil, []schemas.UserID{fan})
		s.lists.deny(user, c.Version, c.At)
		around := []*schemas.Transition{s.comes(user), c, s.after(user, c.Version)}
		if got := take(5, around...); len(got) != 1 || len(got[c.Version]) != 1 {
			t.Errorf("told of %d versions", len(got))
		}
	}
}
