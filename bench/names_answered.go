package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

const (
	// batchOfNames is how many users a batch read of this bench asks for, the most that one may.
	batchOfNames = 1000
	// nameReaders is how many clients read at the same time.
	nameReaders = 4
	// nameTurns is how often the modes take turns.
	nameTurns = 8
)

// namesAnswered measures what names cost those who ask: two pipelines in this process, one of users with
// integers and one of users with names (UUIDs), each with the production wiring, a Kafka and a Redis of its own.
// In turns somebody new comes to each every 20 ms, and it is timed when a consumer has the transition; then
// clients read 1,000 users at a time, whom every answer must show online.
func namesAnswered(t *loadtest.T) {
	count := min(t.Users, 20_000)
	modes := []*answeredMode{newAnsweredMode(t, "integers", identity.Users{}, count), newAnsweredMode(t, "names", identity.Named(populationKey), count)}
	each := t.Length() / nameTurns
	for range nameTurns {
		for _, m := range modes {
			m.come(t, each)
		}
		for _, m := range modes {
			m.ask(t, each)
		}
	}
	for _, m := range modes {
		t.AddSpread(m.name+": HTTP beat to committed transition", m.took.All())
		reads := m.reads.All()
		t.Add(fmt.Sprintf("%s: batch reads of %d users", m.name, batchOfNames), float64(len(reads))/m.asked.Seconds(), "requests/s")
		t.AddSpread(m.name+": batch read", reads)
	}
	t.Note(fmt.Sprintf("Answers: %d users online in each of two pipelines, %d clients, in %d turns; the clients, the roles and the consumer are one process.",
		count, nameReaders, nameTurns))
}

// answeredMode is a pipeline of users who have integers or names.
type answeredMode struct {
	name   string
	users  identity.Users
	api    loadtest.API
	bodies []string // of batch reads
	next   atomic.Int64
	took   loadtest.LockedSpread
	reads  loadtest.LockedSpread
	asked  time.Duration // for how long reads were asked for
	probes int

	mu    sync.Mutex // protects begun
	begun map[schemas.UserID]time.Time
}

func newAnsweredMode(t *loadtest.T, name string, users identity.Users, count int) *answeredMode {
	m := &answeredMode{name: name, users: users, begun: map[schemas.UserID]time.Time{}}
	rig := t.RigOf(users)
	roles := rig.AllRoles(func(c *app.Config) {
		c.Policy = loadtest.Stay()
		if users.Text() {
			c.Kafka.IDs, c.Kafka.IdentityKey = string(identity.Text), hex.EncodeToString(populationKey[:])
		}
	})
	m.api = roles.API
	watch := rig.Watch(m.published)
	writePopulation(t, rig, users, count)
	t.Until(func() string { return fmt.Sprintf("%s: %d of %d users are online", name, watch.Online.Load(), count) },
		func() bool { return watch.Online.Load() >= int64(count) })
	t.Until(func() string { return "waiting for the stores to catch up with the arrivals" }, func() bool { return roles.CaughtUp(t.Context()) })
	size := min(batchOfNames, count)
	for first := 0; first+size <= count; first += size {
		texts := make([]string, size)
		for i := range texts {
			texts[i] = m.text(first + i + 1)
		}
		body, err := json.Marshal(map[string]any{"user_ids": texts})
		t.Check(err)
		m.bodies = append(m.bodies, string(body))
	}
	return m
}

// text is what requests call the user with a number.
func (m *answeredMode) text(number int) string {
	if m.users.Text() {
		return uuids(uint64(number))
	}
	return strconv.Itoa(number)
}

// path is that of an endpoint, for the users of this pipeline.
func (m *answeredMode) path(path string) string {
	if m.users.Text() {
		return path + "?tenant=acme"
	}
	return path
}

// come lets somebody new come every 20 ms, and returns when all of them have.
func (m *answeredMode) come(t *loadtest.T, length time.Duration) {
	posting, ctx := errgroup.WithContext(t.Context())
	t.Every(loadtest.ProbeInterval, length, func() bool {
		number := int(loadtest.FirstProbe) + m.probes
		m.probes++
		id, text := schemas.UserID(number), m.text(number)
		if m.users.Text() {
			id = m.users.ID("acme", text)
		}
		m.mu.Lock()
		m.begun[id] = time.Now()
		m.mu.Unlock()
		posting.Go(func() error {
			body := fmt.Sprintf(`{"beats":[{"user_id":%q,"device_id":"7","device_kind":"mobile"}]}`, text)
			_, err := m.api.Ask(ctx, http.MethodPost, m.path("/presence/heartbeats"), body, http.StatusAccepted)
			return err
		})
		return true
	})
	t.Check(posting.Wait())
	t.Until(func() string { return m.name + ": waiting for transitions" }, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.begun) == 0
	})
}

// published receives the transitions from the consumer.
func (m *answeredMode) published(t *schemas.Transition, at time.Time) {
	m.mu.Lock()
	begun, mine := m.begun[t.User]
	delete(m.begun, t.User)
	m.mu.Unlock()
	if mine {
		m.took.Add(loadtest.Spread{at.Sub(begun)})
	}
}

// ask reads by all clients for a while.
func (m *answeredMode) ask(t *loadtest.T, length time.Duration) {
	begun := time.Now()
	clients, ctx := errgroup.WithContext(t.Context())
	for range nameReaders {
		clients.Go(func() error { return m.reader(ctx, begun, length) })
	}
	t.Check(clients.Wait())
	m.asked += time.Since(begun)
}

func (m *answeredMode) reader(ctx context.Context, begun time.Time, length time.Duration) error {
	var times loadtest.Spread
	defer func() { m.reads.Add(times) }()
	for time.Since(begun) < length {
		asked := time.Now()
		answer, err := m.api.Ask(ctx, http.MethodPost, m.path("/presence/batch"), m.bodies[int(m.next.Add(1))%len(m.bodies)], http.StatusOK)
		if err != nil {
			return err
		}
		times = append(times, time.Since(asked))
		if online := bytes.Count(answer, saysOnline); online != bytes.Count(answer, []byte(`":`)) {
			return fmt.Errorf("%s: not all users are online: %.300s", m.name, answer)
		}
	}
	return nil
}
