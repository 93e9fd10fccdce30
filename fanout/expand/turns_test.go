package expand

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// log is a partition whose records a task gets as the processor hands them out.
type partitionLog struct {
	records []schemas.Record
	next    int // of the records
	at      stream.Assignment
}

type limited interface {
	HandleBatch(ctx context.Context, records []schemas.Record, out *stream.Outbox) error
	Checkpoint() string
	Restore(ctx context.Context, at stream.Assignment, read stream.ReadFunc) error
	Capacity() int
	Due() time.Time
	Retained() (int64, bool)
}

func (l *partitionLog) add(time schemas.Millis, value []byte) {
	l.records = append(l.records, schemas.Record{Offset: int64(len(l.records)), Time: time, Value: value})
}

// step hands out the next records, at most so many, and commits.
func (l *partitionLog) step(t *testing.T, task limited, most int) []schemas.Outgoing {
	t.Helper()
	n := min(most, task.Capacity(), len(l.records)-l.next)
	var out stream.Outbox
	if err := task.HandleBatch(t.Context(), l.records[l.next:l.next+n], &out); err != nil {
		t.Fatal(err)
	}
	l.next += n
	l.at = stream.Assignment{Offset: int64(l.next), LogEnd: int64(len(l.records)), Metadata: task.Checkpoint()}
	if first, any := task.Retained(); any {
		l.at.Offset = min(l.at.Offset, first)
	}
	return out.Records
}

// restart hands the partition to another task.
func (l *partitionLog) restart(t *testing.T, task limited) {
	t.Helper()
	if len(l.at.Metadata) > 3_000 {
		t.Errorf("the metadata has %d bytes", len(l.at.Metadata))
	}
	if err := task.Restore(t.Context(), l.at, nil); err != nil {
		t.Fatal(err)
	}
	l.next = int(l.at.Offset)
}

func (l *partitionLog) over(task limited) bool {
	return l.next == len(l.records) && task.Due().IsZero()
}

// tenants is a stage in text mode, whose users have one follower each.
func tenants(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	s.Names, s.Config.Everyone = follower{}, true
	s.Followers = oneFollower{}
	s.planner, s.worker = s.NewPlanner(), s.NewWorker()
	return s
}

// follower knows the name of the one follower alone.
type follower struct{}

func (follower) Names(context.Context, []schemas.UserID) (graph.Names, error) {
	return graph.Names{20: {Text: "follower"}}, nil
}

// oneFollower follows everybody.
type oneFollower struct{ fail error }

func (o oneFollower) Of(_ context.Context, users []schemas.UserID) ([]graph.Followers, error) {
	all := make([]graph.Followers, len(users))
	for i := range all {
		all[i].IDs = []schemas.UserID{20}
	}
	return all, o.fail
}

// of is the next transition of a tenant's user.
func (s *stage) of(tenant string, user schemas.UserID) *schemas.Transition {
	c := s.comes(user)
	c.Name = schemas.Name{Tenant: tenant, Text: fmt.Sprint(user)}
	return c
}

func TestAQuietTenantsChangePassesTheBacklogOfANoisyOne(t *testing.T) {
	t.Parallel()
	for _, backlog := range []int{1_000, 15_000} {
		s, log := tenants(t), &partitionLog{}
		for i := range backlog {
			c := s.of("noisy", schemas.UserID(1_000+i))
			log.add(c.At, c.Encode())
		}
		quiet := s.of("quiet", 7)
		log.add(quiet.At, quiet.Encode())
		planned, before := 0, -1
		for !log.over(s.planner) {
			for version := range told(t, log.step(t, s.planner, 2_048)) {
				if planned++; version == quiet.Version {
					before = planned
				}
			}
		}
		// A call plans 256 changes and reads 2,048; the quiet change is in the call that has read it, or in the next.
		if most := (backlog/2_048 + 2) * plannedChanges; before < 0 || before > most {
			t.Errorf("the quiet tenant was planned after %d of %d changes, want %d at most", before, backlog, most)
		}
		if planned != backlog+1 || s.busyPlanners.Load() != 0 {
			t.Errorf("%d of %d changes are planned; %d planners are busy", planned, backlog+1, s.busyPlanners.Load())
		}
	}
}

func TestTheBacklogIsBounded(t *testing.T) {
	t.Parallel()
	s, log := tenants(t), &partitionLog{}
	s.Config.Ahead = 500
	s.planner = s.NewPlanner()
	for i := range 5_000 {
		c := s.of("noisy", schemas.UserID(1_000+i))
		log.add(c.At, c.Encode())
	}
	planned := 0
	for !log.over(s.planner) {
		planned += len(told(t, log.step(t, s.planner, 2_048)))
		if n := s.planner.backlog.turns.Len(); n > 500 {
			t.Fatalf("%d changes wait", n)
		}
	}
	if planned != 5_000 {
		t.Errorf("%d are planned", planned)
	}
}

func TestInTurnsOfTenantsNothingIsLostDoubledOrReorderedByRestarts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		s, log := tenants(t), &partitionLog{}
		s.Config.Ahead = 50 + random.IntN(400)
		now := time.Now()
		s.Config.Gap = time.Duration(random.IntN(2)) * time.Second
		for i := range 3_000 {
			tenant := "noisy"
			user := schemas.UserID(1_000 + random.IntN(300))
			if random.IntN(10) == 0 {
				user = schemas.UserID(100 + random.IntN(2*maxCuts))
				tenant = fmt.Sprint("t", user%40)
			}
			c := s.of(tenant, user)
			if i < 500 && random.IntN(3) == 0 {
				c.Name = schemas.Name{} // it was not known yet
			}
			log.add(c.At, c.Encode())
		}
		start := func() limited {
			p := s.NewPlanner()
			p.now = func() time.Time { return now }
			return p
		}
		planner := start()
		times, last := map[schemas.Version]int{}, map[schemas.UserID]schemas.Version{}
		for !log.over(planner) {
			now = now.Add(time.Duration(random.IntN(400)) * time.Millisecond)
			for _, o := range log.step(t, planner, 1+random.IntN(700)) {
				d, err := schemas.DecodeDelivery(o.Value)
				if err != nil {
					t.Fatal(err)
				}
				times[d.Transition.Version]++
				if d.Transition.Version < last[d.Transition.User] {
					t.Fatalf("seed %d: version %d of user %d comes after %d", seed, d.Transition.Version, d.Transition.User, last[d.Transition.User])
				}
				last[d.Transition.User] = d.Transition.Version
			}
			if random.IntN(6) == 0 {
				planner.(*Planner).Close()
				planner = start()
				log.restart(t, planner)
			}
		}
		newest := map[schemas.UserID]schemas.Version{}
		for _, r := range log.records {
			c, err := schemas.DecodeTransition(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			newest[c.User] = c.Version
		}
		for user, version := range newest {
			if last[user] != version {
				t.Errorf("seed %d: the last change of user %d, %d, is not planned", seed, user, version)
			}
		}
		for version, n := range times {
			if n != 1 {
				t.Errorf("seed %d: version %d is planned %d times", seed, version, n)
			}
		}
		if s.busyPlanners.Load() != 0 {
			t.Errorf("seed %d: %d planners are busy at the end", seed, s.busyPlanners.Load())
		}
	}
}

func TestATurnThatFailsIsPlannedAsAWholeAgain(t *testing.T) {
	t.Parallel()
	s, log := tenants(t), &partitionLog{}
	s.Followers = oneFollower{errors.New("the graph is away")}
	for i := range 600 {
		c := s.of([]string{"a", "b"}[i%2], schemas.UserID(1_000+i))
		log.add(c.At, c.Encode())
	}
	var out stream.Outbox
	for range 3 {
		if err := s.planner.HandleBatch(t.Context(), log.records[:400], &out); err == nil {
			t.Fatal("no error")
		}
	}
	s.Followers = oneFollower{}
	all := 0
	for !log.over(s.planner) {
		all += len(told(t, log.step(t, s.planner, 400)))
	}
	if all != 600 {
		t.Errorf("%d of 600 are planned", all)
	}
}

func TestAQuietTenantsJobPassesThoseOfANoisyOneAndRestartsRunEachOnce(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		s, log := tenants(t), &partitionLog{}
		s.Graph = &fans{counts: map[schemas.UserID]int{}}
		var split []schemas.UserID
		for i := range 400 {
			tenant := "noisy"
			if i == 399 {
				tenant = "quiet"
			}
			c := s.of(tenant, schemas.UserID(1_000+i))
			log.add(c.At, (&schemas.FanoutJob{Kind: schemas.SplitJob, Transition: c}).Encode())
		}
		worker, ran := s.NewWorker(), 0
		for !log.over(worker) {
			for _, o := range log.step(t, worker, 64) {
				job, err := schemas.DecodeFanoutJob(o.Value)
				if err != nil {
					t.Fatal(err)
				}
				split = append(split, job.Transition.User)
			}
			if restarts && len(split) > ran+5 {
				ran = len(split)
				worker.Close()
				worker = s.NewWorker()
				log.restart(t, worker)
			}
		}
		if at := slices.Index(split, 1_399); at < 0 || !restarts && at > (400/64+2)*jobsAtATime+2*smallJobs {
			t.Errorf("the quiet tenant's job is number %d", at)
		}
		noisy := slices.DeleteFunc(slices.Clone(split), func(user schemas.UserID) bool { return user == 1_399 })
		if !slices.IsSorted(noisy) || len(split) != 400 {
			t.Errorf("%d jobs ran, in order: %t", len(split), slices.IsSorted(noisy))
		}
	}
}
