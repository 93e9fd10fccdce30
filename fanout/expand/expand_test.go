package expand

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	star  = schemas.UserID(1) // has 25,000 followers
	small = schemas.UserID(2) // has 1,500
	shy   = schemas.UserID(3) // nobody follows
)

// fans is a graph in which the followers of star are 10, 20, 30 ... and those of
// small 11, 21, 31 ...
type fans struct {
	counts map[schemas.UserID]int
	onPage func(after schemas.UserID)
	fail   error
}

func (f *fans) id(user schemas.UserID, i int) schemas.UserID {
	return schemas.UserID(10*(i+1)) + user - 1
}

func (f *fans) Page(_ context.Context, dst []schemas.UserID, user, after, through schemas.UserID, limit int) ([]schemas.UserID, error) {
	if f.onPage != nil {
		f.onPage(after)
	}
	for i := range f.counts[user] {
		if id := f.id(user, i); id > after && id <= through && limit > 0 {
			dst = append(dst, id)
			limit--
		}
	}
	return dst, f.fail
}

func (f *fans) Ranges(_ context.Context, user schemas.UserID, size int) (ends []schemas.UserID, err error) {
	for i := size - 1; i < f.counts[user]; i += size {
		ends = append(ends, f.id(user, i))
	}
	return append(ends, graph.LastID), f.fail
}

func (f *fans) Followers(_ context.Context, user schemas.UserID, followers []schemas.UserID) ([]bool, error) {
	follow := make([]bool, len(followers))
	for i, id := range followers {
		follow[i] = id >= f.id(user, 0) && id <= f.id(user, f.counts[user]-1) && id%10 == user-1
	}
	return follow, f.fail
}

func (f *fans) Of(ctx context.Context, users []schemas.UserID) ([]graph.Followers, error) {
	all := make([]graph.Followers, len(users))
	for i, u := range users {
		all[i].Listed = u != small
		if all[i].Many = f.counts[u] > 10_000; !all[i].Many {
			all[i].IDs, _ = f.Page(ctx, nil, u, 0, graph.LastID, 10_000)
		}
	}
	return all, f.fail
}

// stage has planner and worker. Users whose id is even or 11 are present.
type stage struct {
	*Dependencies
	graph    *fans
	lists    *lists
	register *shown.Set
	planner  *Planner
	worker   *Worker
	version  schemas.Version
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{graph: &fans{counts: map[schemas.UserID]int{star: 25_000, small: 1_500}}, register: shown.NewSet(),
		lists: &lists{of: map[schemas.UserID]shown.Denied{}}}
	config := Defaults()
	config.Mode, config.JobFollowers, config.Rate, config.Gap = All, 1_100, 0, 0
	s.Dependencies = &Dependencies{Config: config, Followers: s.graph, Graph: s.graph, Online: s.register, Newest: NewNewest(),
		Metrics: NewMetrics(nil), Jobs: 4, Deliveries: 4, Denied: s.lists.Denied}
	s.planner, s.worker = s.NewPlanner(), s.NewWorker()
	var seen []shown.Entry
	for id := schemas.UserID(1); id < 300_000; id++ {
		if id%2 == 0 || id == 11 {
			seen = append(seen, shown.Entry{User: id, Present: true})
		}
	}
	s.see(t, seen...)
	return s
}

func (s *stage) see(t *testing.T, seen ...shown.Entry) {
	t.Helper()
	must.Do(t, s.register.Apply(t.Context(), stream.Batch[shown.Entry]{Items: seen}))
}

// comes is the next transition of user.
func (s *stage) comes(user schemas.UserID) *schemas.Transition {
	s.version++
	return &schemas.Transition{User: user, From: schemas.Offline, To: schemas.Online, At: schemas.MillisOf(time.Now()), Cause: schemas.FirstBeat,
		Visibility: schemas.Everyone, Version: s.version}
}

func (s *stage) hides(user schemas.UserID) *schemas.Transition {
	t := s.comes(user)
	t.Cause, t.Visibility = schemas.VisibilityChange, schemas.Nobody
	return t
}

func (s *stage) plan(t *testing.T, changes ...*schemas.Transition) []schemas.Outgoing {
	t.Helper()
	var records []schemas.Record
	for i, c := range changes {
		records = append(records, schemas.Record{Offset: int64(i), Time: c.At, Key: c.User.Key(), Value: c.Encode()})
	}
	var out stream.Outbox
	must.Do(t, s.planner.HandleBatch(t.Context(), records, &out))
	return out.Records
}

// work gives jobs to the worker, and those that come of them, until none is left;
// it gives the delivery records.
func (s *stage) work(t *testing.T, jobs []schemas.Outgoing) (deliveries []schemas.Outgoing) {
	t.Helper()
	for len(jobs) > 0 {
		var records []schemas.Record
		for _, j := range jobs {
			if j.Topic == schemas.Deliveries {
				deliveries = append(deliveries, j)
				continue
			}
			records = append(records, schemas.Record{Key: j.Key, Value: j.Value})
		}
		var out stream.Outbox
		must.Do(t, s.worker.HandleBatch(t.Context(), records, &out))
		jobs = out.Records
	}
	return deliveries
}

func (s *stage) know(t *testing.T, outs []schemas.Outgoing) {
	t.Helper()
	for _, o := range outs {
		if o.Topic != schemas.Fanout {
			continue
		}
		job := must.Get(DecodeJob(&schemas.Record{Value: o.Value}))(t)
		must.Do(t, s.Newest.Apply(t.Context(), stream.Batch[Written]{Items: []Written{job}}))
	}
}

// told is who is told of which version, and checks that nobody is told twice.
func told(t *testing.T, outs []schemas.Outgoing) map[schemas.Version][]schemas.UserID {
	t.Helper()
	all := map[schemas.Version][]schemas.UserID{}
	for _, o := range outs {
		d := must.Get(schemas.DecodeDelivery(o.Value))(t)
		all[d.Transition.Version] = append(all[d.Transition.Version], d.Recipients...)
	}
	for v, who := range all {
		slices.Sort(who)
		if n := len(slices.Compact(slices.Clone(who))); n != len(who) {
			t.Errorf("of version %d, %d are told and only %d different ones", v, len(who), n)
		}
	}
	return all
}

func (s *stage) here(user schemas.UserID) []schemas.UserID {
	all, _ := s.graph.Page(context.Background(), nil, user, 0, graph.LastID, 1<<30)
	return s.register.Filter(nil, all)
}

func TestFewFollowersGetTheirDeliveryAtOnceIfTheyArePresent(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.register = shown.NewSet()
	s.Online = s.register
	s.see(t, shown.Entry{User: 11, Present: true}, shown.Entry{User: 31, Present: true}, shown.Entry{User: 32, Present: true})
	outs := s.plan(t, s.comes(small), s.comes(shy))
	if got := told(t, outs)[1]; !slices.Equal(got, []schemas.UserID{11, 31}) || len(outs) != 1 || outs[0].Partition > 1 {
		t.Errorf("told are %v, by %d records", got, len(outs))
	}
	s.Config.Everyone = true
	outs = s.plan(t, s.comes(small))
	if got := told(t, outs)[3]; len(got) != 1_500 || len(outs) != 2 {
		t.Errorf("told are %d, by %d records", len(got), len(outs))
	}
}

func TestEveryPresentFollowerOfACelebrityGetsOneDelivery(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	jobs := s.plan(t, s.comes(star))
	if len(jobs) != 1 || jobs[0].Topic != schemas.Fanout {
		t.Fatalf("%d records planned", len(jobs))
	}
	deliveries := s.work(t, jobs)
	if got, want := told(t, deliveries)[1], s.here(star); !slices.Equal(got, want) || len(want) == 0 {
		t.Errorf("%d are told, %d are here", len(got), len(want))
	}
	partitions := map[int32]bool{}
	for _, d := range deliveries {
		partitions[d.Partition] = true
	}
	if len(partitions) != 2 || !partitions[2] || !partitions[3] {
		t.Errorf("they are told in partitions %v of 4", partitions)
	}
}

func TestAFlappingUserIsDeliveredOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	outs := s.plan(t, s.comes(small), s.comes(star), s.comes(small), s.comes(small), s.comes(star))
	got := told(t, s.work(t, outs))
	if len(got) != 2 || len(got[4]) == 0 || len(got[5]) == 0 {
		t.Errorf("versions %v are told of", len(got))
	}
}

func TestJobsOfAnOlderVersionAreSuperseded(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	older, newer := s.plan(t, s.comes(star)), s.plan(t, s.comes(star))
	s.know(t, newer)
	if got := s.work(t, older); len(got) != 0 {
		t.Errorf("%d records were written for what was overtaken", len(got))
	}
	if got := told(t, s.work(t, newer)); len(got[2]) != len(s.here(star)) {
		t.Errorf("%d are told of the newer one", len(got[2]))
	}
}

func TestNothingIsDeliveredOnceTheUserIsKnownToBeHidden(t *testing.T) {
	t.Parallel()
	for name, learn := range map[string]func(s *stage, hide *schemas.Transition){
		"by the status": func(s *stage, hide *schemas.Transition) {
			s.see(t, shown.Entry{User: star, Present: true, Hidden: hide.Version})
		},
		"by an erasure": func(s *stage, later *schemas.Transition) {
			s.see(t, shown.Entry{User: star, Erased: later.Version})
		},
		"by the stop job": func(s *stage, hide *schemas.Transition) { s.know(t, s.plan(t, hide)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.slots = make(chan struct{}, 1) // one job at a time
			jobs := s.plan(t, s.comes(star))
			hide := s.hides(star)
			var pages atomic.Int32
			after := 0
			s.graph.onPage = func(schemas.UserID) {
				if pages.Add(1) == 5 {
					learn(s, hide)
				}
			}
			for _, d := range s.work(t, jobs) {
				delivery := must.Get(schemas.DecodeDelivery(d.Value))(t)
				after += len(delivery.Recipients)
			}
			// Nor is the page told that was being read when the hide came.
			if most := 4 * 1_100; after > most {
				t.Errorf("%d were told, though only %d can have been before the hide", after, most)
			}
			s.graph.onPage = nil
			if outs := s.plan(t, s.comes(small), s.hides(small)); len(outs) != 0 {
				t.Errorf("%d records about a hidden user", len(outs))
			}
		})
	}
}

func TestAUserWhoIsVisibleAgainIsDeliveredThoughTheStatusIsLate(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	hide := s.hides(small)
	s.see(t, shown.Entry{User: small, Hidden: hide.Version})
	if got := told(t, s.plan(t, s.comes(small))); len(got[2]) == 0 {
		t.Errorf("nobody is told: %v", got)
	}
}

func TestAUserWhoFallsBelowTheLimitSupersedesItsJobs(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	older := s.plan(t, s.comes(star))
	s.graph.counts[star] = 100
	newer := s.plan(t, s.comes(star))
	s.know(t, newer)
	if got := told(t, s.work(t, append(older, newer...))); len(got[1]) != 0 || len(got[2]) != 100 {
		t.Errorf("%d are told of the older, %d of the newer", len(got[1]), len(got[2]))
	}
}

func TestOnlyListedUsersAreDeliveredIfThatIsAsked(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Config.Mode = Listed
	if outs := s.plan(t, s.comes(small), s.comes(star)); len(outs) != 1 || outs[0].Topic != schemas.Fanout {
		t.Errorf("%d records", len(outs))
	}
}

func TestAnOldChangeIsNotDelivered(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	old := s.comes(small)
	old.At -= schemas.Millis(s.Config.MaxAge.Milliseconds()) + 1000
	if outs := s.plan(t, old); len(outs) != 0 {
		t.Errorf("%d records", len(outs))
	}
}

func TestRecordsThatCannotBeReadAreSetAsideAndAFailingGraphIsAnError(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	bad := []schemas.Record{{Value: []byte{0xff}}}
	for name, handle := range map[string]func(context.Context, []schemas.Record, *stream.Outbox) error{
		"planner": s.planner.HandleBatch, "worker": s.worker.HandleBatch,
	} {
		var out stream.Outbox
		if err := handle(t.Context(), bad, &out); err != nil || len(out.Rejected) != 1 || out.Rejected[0].Record != &bad[0] {
			t.Errorf("%s: %v, %v", name, out.Rejected, err)
		}
	}
	jobs := s.plan(t, s.comes(star))
	s.graph.fail = errors.New("the graph does not answer")
	change := s.comes(small)
	var out stream.Outbox
	if err := s.planner.HandleBatch(t.Context(), []schemas.Record{{Time: change.At, Value: change.Encode()}}, &out); !errors.Is(err, s.graph.fail) {
		t.Errorf("planner: %v", err)
	}
	if err := s.worker.HandleBatch(t.Context(), []schemas.Record{{Value: jobs[0].Value}}, &out); !errors.Is(err, s.graph.fail) {
		t.Errorf("worker: %v", err)
	}
}

func TestWorkersKeepToTheirRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.Config.Rate = 5_000
		s.start()
		begun := time.Now()
		jobs := s.plan(t, s.comes(star))
		if got := told(t, s.work(t, jobs)); len(got[1]) == 0 {
			t.Error("nobody is told")
		}
		if took := time.Since(begun); took < 4900*time.Millisecond || took > 5*time.Second {
			t.Errorf("25,000 followers at 5,000 a second took %s", took)
		}
	})
}

func TestSettingsThatCannotWorkAreNamed(t *testing.T) {
	t.Parallel()
	if err := Defaults().Validate(); err != nil {
		t.Error(err)
	}
	if err := (Config{Rate: -1}).Validate(); err == nil {
		t.Error("nothing is wrong with nothing")
	}
}
