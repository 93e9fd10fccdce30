package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/internal/fair"
	"github.com/stillhere/stillhere/internal/online"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/sink"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

const (
	quietEvery = 10 * time.Millisecond // between two changes or reads of the quiet tenant
	// noisyBacklog is how many changes the noisy tenant has in the partition when the quiet one begins.
	noisyBacklog = 15_000
	// graphWait is how long the graph of this bench takes for a batch.
	graphWait = 10 * time.Millisecond
	// readWait is how long a read of this bench takes, and readSlots how many are answered at a time.
	readWait, readSlots = 5 * time.Millisecond, 16
	noisyReaders        = 200
)

// tenants measures how long a quiet tenant waits alone, beside a noisy one, and beside it without turns: in
// the fan-out to followers, webhooks, reads and the sink. It runs the production code of each in this
// process, on one partition without Kafka; graph, stores and receivers are waits, so the figures show what
// queueing adds and not how fast a machine is.
func (l *lab) tenants(t *loadtest.T) {
	for _, part := range []struct {
		name    string
		measure func(t *loadtest.T, noisy, turns bool) loadtest.Spread
	}{{"follower fan-out", planned}, {"reads", answered}, {"webhook", posted}, {"sink", written}} {
		alone := t.AddSpread(part.name+": the quiet tenant alone", part.measure(t, false, true)).P99()
		beside := t.AddSpread(part.name+": beside a noisy one", part.measure(t, true, true)).P99()
		if part.name != "sink" {
			t.AddSpread(part.name+": beside it, without turns", part.measure(t, true, false))
		}
		t.Add(part.name+": p99 beside the noisy one over alone", beside/alone, "times")
	}
	tenantsFile(t)
	t.Note(fmt.Sprintf("The noisy tenant has %d changes in the partition at the start, %d clients that read without a pause, and a receiver that hangs. "+
		"Webhook with turns: a channel of its own for each tenant; webhooks by file: one process with --tenants-file. The sink has no turns: it writes what is there in batches of up to %d.",
		noisyBacklog, noisyReaders, lastseen.Defaults().SinkRows))
}

// of is a transition of a tenant's user.
func of(tenant string, user int, version int64) *schemas.Transition {
	change := loadtest.Change(schemas.UserID(user), schemas.MillisOf(time.Now()), schemas.NewVersion(1, version, 0), true)
	change.Name = schemas.Name{Tenant: tenant, Text: fmt.Sprint(user)}
	return change
}

// partitionLog is a partition to which a noisy tenant has written and a quiet one writes.
type partitionLog struct {
	records []schemas.Record
	written map[schemas.Version]time.Time // by the quiet tenant
	next    int
	last    time.Time
}

func newPartitionLog(noisy bool) *partitionLog {
	p := &partitionLog{written: map[schemas.Version]time.Time{}}
	for i := range noisyBacklog {
		if noisy {
			p.add(of("noisy", 1_000_000+i, int64(i)))
		}
	}
	return p
}

func (p *partitionLog) add(change *schemas.Transition) {
	p.records = append(p.records, schemas.Record{Offset: int64(len(p.records)), Time: change.At, Value: change.Encode()})
}

// read returns what is there, up to most records. The quiet tenant has written meanwhile.
func (p *partitionLog) read(most int) []schemas.Record {
	if time.Since(p.last) >= quietEvery {
		p.write()
	}
	return p.take(most)
}

// write adds a change of the quiet tenant.
func (p *partitionLog) write() *schemas.Transition {
	p.last = time.Now()
	change := of("quiet", 1+len(p.written), int64(len(p.records)))
	p.written[change.Version] = p.last
	p.add(change)
	return change
}

// take is read of what is there already.
func (p *partitionLog) take(most int) []schemas.Record {
	some := p.records[p.next:min(len(p.records), p.next+most)]
	p.next += len(some)
	return some
}

// overdue is an error if nothing of the quiet tenant came out for a minute, or the bench was interrupted.
func overdue(t *loadtest.T, begun time.Time, waits loadtest.Spread) error {
	if len(waits) == 0 && time.Since(begun) > time.Minute {
		return errors.New("no change of the quiet tenant came out within a minute")
	}
	return t.Context().Err()
}

// graphOfOne is a graph in which one user follows everybody.
type graphOfOne struct{}

const follower schemas.UserID = 9_999_999

// Of waits as a database does.
func (graphOfOne) Of(_ context.Context, users []schemas.UserID) ([]graph.Followers, error) {
	time.Sleep(graphWait)
	all := make([]graph.Followers, len(users))
	for i := range all {
		all[i].IDs = []schemas.UserID{follower}
	}
	return all, nil
}

// Names knows the follower. Changes have the names of their users.
func (graphOfOne) Names(context.Context, []schemas.UserID) (graph.Names, error) {
	return graph.Names{follower: {Text: "follower"}}, nil
}

// planned measures from a change to its delivery record.
func planned(t *loadtest.T, noisy, turns bool) (waits loadtest.Spread) {
	config := expand.Defaults()
	config.Mode, config.Everyone = expand.All, true
	most := 2_048
	if !turns {
		config.Ahead, most = 0, 256
	}
	deps := &expand.Dependencies{Config: config, Followers: graphOfOne{}, Names: graphOfOne{}, Online: online.NewSet(),
		Newest: expand.NewNewest(), Metrics: expand.NewMetrics(nil), Jobs: 1, Deliveries: 2}
	planner, log := deps.NewPlanner(), newPartitionLog(noisy)
	defer planner.Close()
	for begun := time.Now(); time.Since(begun) < t.Length() || len(waits) == 0; {
		t.Check(overdue(t, begun, waits))
		records := log.read(min(most, planner.Capacity()))
		if len(records) == 0 && planner.Due().IsZero() {
			time.Sleep(time.Millisecond)
			continue
		}
		var out stream.Outbox
		t.Check(planner.HandleBatch(t.Context(), records, &out))
		for _, o := range out.Records {
			d, err := schemas.DecodeDelivery(o.Value)
			t.Check(err)
			if at, quiet := log.written[d.Transition.Version]; quiet {
				waits = append(waits, time.Since(at))
			}
		}
	}
	return waits
}

// answered measures from a read to its answer.
func answered(t *loadtest.T, noisy, turns bool) (waits loadtest.Spread) {
	gate := fair.NewGate(fair.GateConfig{AtWork: readSlots, Waiting: 4 * noisyReaders, Wait: time.Minute})
	read := func(tenant string) {
		if !turns {
			tenant = "everybody"
		}
		t.Check(gate.Enter(t.Context(), tenant))
		time.Sleep(readWait)
		gate.Leave(tenant, readWait)
	}
	end := make(chan struct{})
	var readers sync.WaitGroup
	for range noisyReaders {
		readers.Go(func() {
			for noisy {
				select {
				case <-end:
					return
				default:
					read("noisy")
				}
			}
		})
	}
	t.Every(quietEvery, t.Length(), func() bool {
		begun := time.Now()
		read("quiet")
		waits = append(waits, time.Since(begun))
		return true
	})
	close(end)
	readers.Wait()
	return waits
}

// receivers are the webhooks of two tenants: that of the noisy one hangs.
type receivers struct {
	mu    sync.Mutex
	came  map[schemas.Version]time.Time
	hangs time.Duration
}

// Deliver notes the time, or hangs.
func (r *receivers) Deliver(ctx context.Context, n schemas.Notice) error {
	if n.Transition.Name.Tenant == "noisy" {
		select {
		case <-time.After(r.hangs):
		case <-ctx.Done():
		}
		return context.DeadlineExceeded
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came[n.Transition.Version] = time.Now()
	return nil
}

// posted measures from a change to the post.
func posted(t *loadtest.T, noisy, turns bool) (waits loadtest.Spread) {
	log, r := newPartitionLog(noisy), &receivers{came: map[schemas.Version]time.Time{}, hangs: 100 * time.Millisecond}
	config := delivery.Defaults()
	config.Timeout = time.Second
	serves := []delivery.Tenants{{}}
	if turns {
		serves = []delivery.Tenants{{Only: []string{"noisy"}}, {Except: []string{"noisy"}}}
	}
	var items []delivery.Item
	for range int(t.Length() / quietEvery) {
		for _, record := range log.read(noisyBacklog) {
			items = append(items, delivery.Item{Delivery: &schemas.Delivery{Transition: decoded(t, record)}, Record: record})
		}
		log.last = time.Time{} // all of the quiet tenant's changes are there at the start
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*t.Length())
	defer cancel()
	begun := time.Now()
	var channels sync.WaitGroup
	for _, tenants := range serves {
		c, err := delivery.NewConsumer(config, r, nil, func(context.Context, *schemas.Record, error) error { return nil },
			delivery.NewMetrics(nil), slog.New(slog.DiscardHandler))
		t.Check(err)
		c.Serve(tenants)
		channels.Go(func() {
			_ = c.Apply(ctx, stream.Batch[delivery.Item]{Items: slices.Clone(items)}) // it may not end in time
			c.Finish(ctx, 0)
		})
	}
	channels.Wait()
	for version := range log.written {
		at, came := r.came[version]
		if !came {
			at = time.Now() // at least
		}
		waits = append(waits, at.Sub(begun))
	}
	return waits
}

func decoded(t *loadtest.T, record schemas.Record) *schemas.Transition {
	change, err := schemas.DecodeTransition(record.Value)
	t.Check(err)
	return change
}

// written measures from a change to its row in SQLite.
func written(t *loadtest.T, noisy, _ bool) (waits loadtest.Spread) {
	t.Part(func() {
		config := sqlitestore.Defaults()
		config.Path = filepath.Join(t.TempDir(), "stillhere.db")
		durable, err := sqlitestore.Open(t.Context(), config)
		t.Check(err)
		t.Cleanup(durable.Close)
		settings := lastseen.Defaults()
		s, log := sink.New(durable, settings, lastseen.NewMetrics(nil)), newPartitionLog(noisy)
		_, err = s.Start(t.Context(), stream.Assignment{Partitions: 1, Offset: store.Unknown})
		t.Check(err)
		for begun := time.Now(); time.Since(begun) < t.Length() || len(waits) == 0; {
			t.Check(overdue(t, begun, waits))
			records := log.read(settings.SinkRows)
			if len(records) == 0 {
				time.Sleep(time.Millisecond)
				continue
			}
			var items []stream.Logged[*schemas.Transition]
			for _, record := range records {
				items = append(items, stream.Logged[*schemas.Transition]{Offset: record.Offset, Time: record.Time, Message: decoded(t, record)})
			}
			t.Check(s.Apply(t.Context(), stream.Batch[stream.Logged[*schemas.Transition]]{Items: items, Next: int64(log.next)}))
			for _, item := range items {
				if at, quiet := log.written[item.Message.Version]; quiet {
					waits = append(waits, time.Since(at))
				}
			}
		}
	})
	return waits
}
