package projector_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/projector"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/lastseen/store/storetest"
	"github.com/stillhere/stillhere/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipeline is a projector with the topics it reads and a reader on its Redis.
type pipeline struct {
	store.Reader
	*projector.Projector
	view   *redisview.View
	reader *query.Reader
	server *redistest.Server

	mu    sync.Mutex
	users map[schemas.UserID]schemas.Current // what the durable store holds
	// during is called in the middle of a rebuild.
	during func()
	lacks  schemas.UserID                    // a status that cannot be read yet
	stated map[schemas.UserID]schemas.Status // statuses that say something else
	next   int64

	metrics *lastseen.Metrics
}

func start(t *testing.T, server *redistest.Server) *pipeline {
	t.Helper()
	return startOn(t, server, redisview.Options{Addrs: []string{server.Addr}, Prefix: server.Prefix})
}

func startOn(t *testing.T, server *redistest.Server, options redisview.Options) *pipeline {
	t.Helper()
	view := must.Get(redisview.Open(options, time.Hour))(t)
	t.Cleanup(func() { _ = view.Close() })
	p := &pipeline{view: view, server: server, users: map[schemas.UserID]schemas.Current{}, during: func() {}}
	metrics := lastseen.NewMetrics(prometheus.NewRegistry())
	config := lastseen.Defaults()
	config.RedisTimeout, config.ReadTimeout = 10*time.Second, 20*time.Second // a busy machine must not change who answers
	p.metrics = metrics
	p.Projector = projector.New(view, p.statuses, config, metrics, slog.New(slog.DiscardHandler))
	p.reader = query.NewReader(view, p, 1, config, metrics)
	return p
}

// Users is the durable store: it has everything at once.
func (p *pipeline) Users(_ context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.Current, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := map[schemas.UserID]schemas.Current{}
	for _, id := range ids {
		if c, ok := p.users[id]; ok {
			found[id] = c
		}
	}
	return found, nil
}

func (p *pipeline) History(context.Context, store.HistoryQuery) (store.Page, error) {
	return store.Page{}, errors.New("not here")
}

func (p *pipeline) Names(context.Context, []schemas.UserID) (map[schemas.UserID]schemas.UserName, error) {
	return nil, nil
}

func (p *pipeline) Missed(context.Context, store.MissedQuery) (store.Missed, error) {
	return store.Missed{}, errors.New("not here")
}

// statuses is the compacted topic: offline users with default visibility and no override have a
// tombstone.
func (p *pipeline) statuses(_ context.Context, _ int32, each func(schemas.Status) error) error {
	p.during()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, status := range p.stated {
		if err := each(status); err != nil {
			return err
		}
	}
	for id, c := range p.users {
		s := schemas.Status{User: c.User, State: c.State, Since: c.Since, LastSeen: c.LastSeen, LastActive: c.LastActive,
			Kinds: c.Kinds, Visibility: c.Visibility, Version: c.Version, Override: c.Override}
		if _, ok := p.stated[id]; ok || id == p.lacks || s.Absent() {
			continue
		}
		if err := each(s); err != nil {
			return err
		}
	}
	return nil
}

// happen lets changes come about and the projector apply them.
func (p *pipeline) happen(t *testing.T, log ...*schemas.Transition) {
	t.Helper()
	b := stream.Batch[stream.Logged[*schemas.Transition]]{}
	p.mu.Lock()
	for _, change := range log {
		p.users[change.User] = store.After(p.users[change.User], change)
		b.Items = append(b.Items, stream.Logged[*schemas.Transition]{Offset: p.next, Message: change})
		p.next++
	}
	b.Next = p.next
	p.mu.Unlock()
	must.Do(t, p.Apply(t.Context(), b))
}

func (p *pipeline) tick(t *testing.T) { t.Helper(); must.Do(t, p.Watermark(t.Context(), 0, now())) }

func now() schemas.Millis { return schemas.MillisOf(time.Now()) }

func change(user schemas.UserID, version schemas.Version, from, to schemas.State) *schemas.Transition {
	return &schemas.Transition{User: user, From: from, To: to, At: now() - 10, LastSeen: now() - 10, Cause: schemas.FirstBeat,
		Visibility: schemas.Everyone, Version: version}
}

// wantRight wants every user as the durable store has it, and whether it is said
// to be stale.
func (p *pipeline) wantRight(t *testing.T, stale bool) {
	t.Helper()
	for id := range schemas.UserID(20) {
		id++
		users := must.Get(p.reader.Read(t.Context(), []schemas.UserID{id}, nil))(t)
		want := schemas.NeverSeen(id, 0)
		if c, ok := p.users[id]; ok {
			want = schemas.PresenceOf(c, 0, now())
		}
		got := users[0]
		if (got.StaleSince != 0) != stale {
			t.Fatalf("user %d: stale since %v", id, got.StaleSince)
		}
		if (got.State == nil) != (want.State == nil) || got.State != nil && *got.State != *want.State || got.Version != want.Version ||
			got.Since != want.Since || got.DND != want.DND || got.LastSeen != want.LastSeen {
			t.Fatalf("user %d is %+v, want %+v", id, got, want)
		}
	}
}

func TestReadsReturnWhatTheProjectorAppliedWhetherRedisOrTheStoreHasIt(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		p := start(t, server)
		if next, err := p.Start(t.Context(), stream.Assignment{}); err != nil || next.Next != store.Unknown {
			t.Fatalf("start at %d (%v), want %d", next, err, store.Unknown)
		}
		log := storetest.RandomLog(1, 15, 300)
		for i := 0; i < len(log); i += 20 {
			p.happen(t, log[i:i+20]...)
		}
		p.tick(t)
		p.wantRight(t, false)

		again := start(t, server)
		if next, err := again.Start(t.Context(), stream.Assignment{}); err != nil || next.Next != 300 {
			t.Fatalf("start at %d (%v), want 300", next, err)
		}
	})
}

func TestNobodyWhoIsOnlineReadsAsOfflineWhileAnEmptiedRedisIsRebuilt(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		if server.Prefix != "" {
			t.Skip("STILLHERE_TEST_REDIS names a server that is not ours to empty")
		}
		p := start(t, server)
		for id := range schemas.UserID(15) {
			p.happen(t, change(id+1, schemas.Version(id+1), schemas.Offline, schemas.Online))
		}
		p.tick(t)

		online := func(when string) {
			for id := range schemas.UserID(15) {
				users := must.Get(p.reader.Read(t.Context(), []schemas.UserID{id + 1}, nil))(t)
				if *users[0].State != "online" {
					t.Errorf("%s: user %d is %s", when, id+1, *users[0].State)
				}
			}
		}
		must.Do(t, server.Flush())
		online("after the loss")
		// A second loss during the rebuild makes it fail and start over.
		rounds := 0
		p.during = func() {
			rounds++
			online("during the rebuild")
			if rounds == 1 {
				must.Do(t, server.Flush())
			}
		}
		if err := p.Watermark(t.Context(), 0, now()); err == nil {
			t.Error("a rebuild whose Redis was emptied meanwhile counts as done")
		}
		online("after half a rebuild")
		p.tick(t)
		if rounds != 2 {
			t.Errorf("%d rebuilds, want 2", rounds)
		}
		online("after the rebuild")
		p.happen(t, change(1, 100, schemas.Online, schemas.Offline))
		p.tick(t)
	})
}

func TestReadsAreStaleFromTheLossUntilTheRebuildAndThenRight(t *testing.T) {
	t.Parallel()
	server := redistest.Mini(t)
	p := start(t, server)
	log := storetest.RandomLog(3, 15, 200)
	p.happen(t, log[:150]...)
	p.tick(t)
	must.Do(t, server.Flush())
	// A new reader, for this one may use the progress of a moment ago.
	fresh := start(t, server)
	fresh.users, fresh.next = p.users, p.next
	fresh.wantRight(t, true)
	p.happen(t, log[150:]...)
	p.tick(t)
	fresh = start(t, server)
	fresh.users = p.users
	fresh.wantRight(t, false)
}

func TestARedisThatFellBackForgetsWhoWentOfflineMeanwhile(t *testing.T) {
	t.Parallel()
	p := start(t, redistest.Mini(t))
	p.happen(t, change(1, 1, schemas.Offline, schemas.Online), change(2, 2, schemas.Offline, schemas.Online))
	p.tick(t)
	before := must.Get(p.view.Progress(t.Context(), 0))(t)
	p.happen(t, change(1, 3, schemas.Online, schemas.Offline))
	p.happen(t, change(3, 4, schemas.Offline, schemas.Online)) // the last batch is written again anyway
	p.tick(t)
	after := must.Get(p.view.Progress(t.Context(), 0))(t)

	// The last steps are undone, as by a failover to a replica that lacks
	// them: the progress goes back, and user 1 is online again in Redis.
	must.Get(p.view.Move(t.Context(), 0, after, redisview.Progress{}))(t)
	must.Get(p.server.Do("DEL presence:{1}"))(t)
	_, err := p.view.Write(t.Context(), before.Epoch, store.Fold([]*schemas.Transition{change(1, 1, schemas.Offline, schemas.Online)}))
	must.Do(t, err)
	must.Get(p.view.Move(t.Context(), 0, redisview.Progress{}, before))(t)

	p.tick(t)
	fresh := start(t, p.server)
	fresh.users = p.users
	fresh.wantRight(t, false)
}

func TestABatchWhoseStatusCannotBeReadYetSurvivesARebuild(t *testing.T) {
	t.Parallel()
	p := start(t, redistest.Mini(t))
	p.happen(t, change(1, 1, schemas.Offline, schemas.Online))
	p.tick(t)
	must.Do(t, p.server.Flush())
	p.lacks = 2
	p.happen(t, change(2, 2, schemas.Offline, schemas.Online))
	entries, _, err := p.view.Read(t.Context(), []schemas.UserID{2})
	must.Do(t, err)
	progress := must.Get(p.view.Progress(t.Context(), 0))(t)
	if e := entries[0]; !e.Found || e.State != schemas.Online || e.Epoch != progress.Epoch {
		t.Fatalf("entry %+v under the progress %+v", e, progress)
	}
}

func TestALogThatEndsBeforeTheMarkMovesItBack(t *testing.T) {
	t.Parallel()
	server := redistest.Mini(t)
	p := start(t, server)
	p.happen(t, storetest.RandomLog(1, 5, 50)...)
	again := start(t, server)
	if next, err := again.Start(t.Context(), stream.Assignment{}); err != nil || next.Next != 50 {
		t.Fatalf("start at %d (%v), want 50", next, err)
	}
	again.users = p.users
	again.happen(t, change(1, 1<<60, schemas.Offline, schemas.Online), change(2, 1<<60, schemas.Offline, schemas.Online))
	if next, err := start(t, server).Start(t.Context(), stream.Assignment{}); err != nil || next.Next != 2 {
		t.Fatalf("start at %d (%v), want 2", next, err)
	}
}

func TestARecreatedTopicIsProjectedFromItsStartAlsoIfTheWatermarkLiesInIt(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		at := func(topic byte, start int64) stream.Assignment {
			return stream.Assignment{TopicID: schemas.TopicID{topic}, LogStart: start, LogEnd: 1000}
		}
		wantKept := func(p *pipeline, at stream.Assignment, want stream.StoredOffset) {
			t.Helper()
			if kept, err := p.Start(t.Context(), at); err != nil || kept != want {
				t.Fatalf("start says %+v (%v), want %+v", kept, err, want)
			}
		}
		older := start(t, server) // which is told of no topic does what an older program does
		wantKept(older, stream.Assignment{}, stream.StoredOffset{Next: store.Unknown})
		older.happen(t, storetest.RandomLog(1, 5, 50)...)
		first := start(t, server)
		wantKept(first, at(1, 0), stream.StoredOffset{Next: 50})
		wantKept(older, stream.Assignment{}, stream.StoredOffset{Next: 50, Topic: schemas.TopicID{1}})
		wantKept(first, at(1, 0), stream.StoredOffset{Next: 50, Topic: schemas.TopicID{1}})

		anew := start(t, server)
		wantKept(anew, at(2, 7), stream.StoredOffset{Next: 7, Topic: schemas.TopicID{1}})
		wantKept(anew, at(2, 7), stream.StoredOffset{Next: 7, Topic: schemas.TopicID{2}})
		anew.users = older.users
		anew.happen(t, change(1, 1<<60, schemas.Offline, schemas.Online))
		anew.tick(t)
		anew.wantRight(t, false)
		_, progress, err := anew.view.Read(t.Context(), []schemas.UserID{1})
		must.Do(t, err)
		if len(progress) != 1 || progress[0] == (redisview.Progress{}) {
			t.Errorf("readers find the progress %+v", progress)
		}
	})
}

func TestTwoOwnersOfAPartitionEndWithTheNewerState(t *testing.T) {
	t.Parallel()
	server := redistest.Mini(t)
	older, newer := start(t, server), start(t, server)
	log := storetest.RandomLog(5, 15, 200)
	for i := 0; i < len(log); i += 20 {
		newer.happen(t, log[i:i+20]...)
		newer.tick(t)
		older.happen(t, log[i/2:i/2+10]...)
		older.tick(t)
	}
	newer.tick(t)
	newer.wantRight(t, false)
}

func TestARebuildThatCannotReadItsTopicIsAnErrorAndNothingIsTrusted(t *testing.T) {
	t.Parallel()
	server := redistest.Mini(t)
	view := must.Get(redisview.Open(redisview.Options{Addrs: []string{server.Addr}}, time.Hour))(t)
	defer view.Close()
	broken := errors.New("the topic is away")
	p := projector.New(view, func(context.Context, int32, func(schemas.Status) error) error { return broken }, lastseen.Defaults(),
		lastseen.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	must.Get(p.Start(t.Context(), stream.Assignment{}))(t)
	if err := p.Watermark(t.Context(), 0, now()); !errors.Is(err, broken) {
		t.Fatalf("error %v, want %v", err, broken)
	}
	_, progress, err := view.Read(t.Context(), []schemas.UserID{1})
	must.Do(t, err)
	if progress := progress[0]; !progress.Rebuilding {
		t.Fatalf("progress %+v", progress)
	}
}

// The status of a user of a lost gateway is written without a change. Its version would not be found again.
func TestARebuildTakesTheVersionOfTheChangeAndNotOfAStatusWithoutOne(t *testing.T) {
	t.Parallel()
	p := start(t, redistest.Mini(t))
	p.WithStore(p)
	p.happen(t, change(1, schemas.NewVersion(1, 5, 0), schemas.Offline, schemas.Online))
	p.tick(t)
	p.stated = map[schemas.UserID]schemas.Status{1: {User: 1, State: schemas.Online, Since: 5, Visibility: schemas.Everyone,
		Version: schemas.NewVersion(1, 9, 0) - 1, UnsureSince: 7}}
	must.Do(t, p.server.Flush())
	p.tick(t)
	entries := p.entries(t, []schemas.UserID{1})
	if e := entries[0]; !e.Found || !e.Complete() || e.Current != p.users[1] {
		t.Errorf("the entry is %+v, want %+v", e, p.users[1])
	}
}

// The store has not got the choice yet, and the status is of a lost gateway, after it.
func TestARebuildKeepsThatOthersLearnLessThanTheStoreKnows(t *testing.T) {
	t.Parallel()
	p := start(t, redistest.Mini(t))
	p.WithStore(p)
	p.happen(t, change(1, schemas.NewVersion(1, 5, 0), schemas.Offline, schemas.Away))
	p.tick(t)
	p.stated = map[schemas.UserID]schemas.Status{1: {User: 1, State: schemas.Away, Since: 5, Visibility: schemas.Everyone,
		Version: schemas.NewVersion(1, 9, 0) - 1, UnsureSince: 7, Override: schemas.Override{LastSeen: schemas.SeenNever}}}
	must.Do(t, p.server.Flush())
	p.tick(t)
	if e := p.entries(t, []schemas.UserID{1})[0]; !e.Found || e.Override.LastSeen != schemas.SeenNever {
		t.Errorf("the entry is %+v", e)
	}
}
