//go:build unix

package load_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

const (
	honestUsers = 1000
	// flippers come and go, one after the other, and are watched. Each goes after flippers
	// times flipEvery, before it would count as silent. So often that a p99 is not the
	// worst of all.
	flippers      = 80
	firstFlipper  = schemas.UserID(honestUsers + 1)
	beatEvery     = 15 * time.Second
	flipEvery     = 250 * time.Millisecond
	notSeen       = 10 * time.Second // a change that is not on the stream by then is an error
	honestTimeout = 10 * time.Second
	lookEvery     = 250 * time.Millisecond // for the heap
)

// Kinds of what honest users do.
var kinds = []string{"read", "beat", "stream"}

// honest are the users whom the attack is not about.
type honest struct {
	*testkit.Dev
	tokens []string

	mu      sync.Mutex
	now     *phase
	flipped map[schemas.UserID]flip
}

// flip is a change that the stream has to tell.
type flip struct {
	to string
	at time.Time
	of *phase
}

// phase is what was felt in one part of the run.
type phase struct {
	name   string
	took   map[string][]time.Duration
	failed map[string]int
	first  map[string]error
	// heap is what the server holds, in MB: the least that was in use while the phase's
	// last requests came to an end, hence right after a collection. resident is what the
	// system has given it, cpu its share of a core in percent.
	heap, resident, goroutines int
	cpu                        float64
}

func newPhase(name string) *phase {
	return &phase{name: name, took: map[string][]time.Duration{}, failed: map[string]int{}, first: map[string]error{}}
}

func newHonest(server *testkit.Dev) *honest {
	h := &honest{Dev: server, now: newPhase("settling"), flipped: map[schemas.UserID]flip{}}
	h.Client.Timeout = honestTimeout
	for user := range schemas.UserID(honestUsers + flippers) {
		h.tokens = append(h.tokens, userToken(user+1))
	}
	return h
}

// live beats, reads and watches until ctx ends.
func (h *honest) live(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { h.watch(ctx) })
	all.Go(func() { h.flip(ctx) })
	ticker := time.NewTicker(beatEvery / honestUsers)
	defer ticker.Stop()
	under := make(chan struct{}, 256) // requests under way: a bound that honest users do not reach
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			all.Wait()
			h.Client.CloseIdleConnections()
			return
		case <-ticker.C:
		}
		user := schemas.UserID(n%honestUsers + 1)
		for _, act := range []func(){func() { h.beat(ctx, user) }, func() { h.read(ctx, user) }} {
			select {
			case under <- struct{}{}:
				all.Go(func() { defer func() { <-under }(); act() })
			default:
				h.note("beat", 0, errors.New("256 requests are under way"))
			}
		}
	}
}

func (h *honest) beat(ctx context.Context, user schemas.UserID) {
	body := fmt.Sprintf(`{"beats":[{"user_id":"%d","device_id":7,"device_kind":"mobile"}]}`, user)
	h.ask(ctx, "beat", user, http.MethodPost, "/presence/heartbeats", body, http.StatusAccepted)
}

func (h *honest) read(ctx context.Context, user schemas.UserID) {
	ids := make([]string, 50)
	for i := range ids {
		ids[i] = (schemas.UserID((int(user)+i)%honestUsers) + 1).String()
	}
	h.ask(ctx, "read", user, http.MethodGet, "/presence/batch?user_ids="+strings.Join(ids, ","), "", http.StatusOK)
}

func (h *honest) ask(ctx context.Context, kind string, user schemas.UserID, method, path, body string, want int) {
	begun := time.Now()
	err := h.send(ctx, user, method, path, body, want)
	if ctx.Err() == nil {
		h.note(kind, time.Since(begun), err)
	}
}

func (h *honest) send(ctx context.Context, user schemas.UserID, method, path, body string, want int) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+h.Listen+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+h.tokens[user-1])
	answer, err := h.Client.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	if answer.StatusCode != want {
		return fmt.Errorf("%s %s: %s %s", method, path, answer.Status, text)
	}
	return nil
}

func (h *honest) note(kind string, took time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now.note(kind, took, err)
}

func (p *phase) note(kind string, took time.Duration, err error) {
	p.took[kind] = append(p.took[kind], took)
	if err != nil {
		p.failed[kind]++
		if p.first[kind] == nil {
			p.first[kind] = err
		}
	}
}

// flip lets one user after the other come, and later go.
func (h *honest) flip(ctx context.Context) {
	for n := 0; pause(ctx, flipEvery); n++ {
		user, to, bye := firstFlipper+schemas.UserID(n%flippers), "online", ""
		if n/flippers%2 == 1 {
			to, bye = "offline", `,"bye":true`
		}
		h.mu.Lock()
		h.flipped[user] = flip{to, time.Now(), h.now}
		h.mu.Unlock()
		body := fmt.Sprintf(`{"beats":[{"user_id":"%d","device_id":7%s}]}`, user, bye)
		if err := h.send(ctx, user, http.MethodPost, "/presence/heartbeats", body, http.StatusAccepted); err != nil && ctx.Err() == nil {
			h.note("beat", 0, err)
		}
		h.overdue(time.Now())
	}
}

// overdue counts changes that the stream has not told in time.
func (h *honest) overdue(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for user, f := range h.flipped {
		if took := now.Sub(f.at); took > notSeen {
			f.of.note("stream", took, fmt.Errorf("user %d is not seen %s", user, f.to))
			delete(h.flipped, user)
		}
	}
}

// watch hears of those who come and go.
func (h *honest) watch(ctx context.Context) {
	watched := make([]string, flippers)
	for i := range watched {
		watched[i] = (firstFlipper + schemas.UserID(i)).String()
	}
	options := watch.Options{URL: "http://" + h.Listen + "/presence/stream", Users: watched, Header: http.Header{"Authorization": {"Bearer " + h.tokens[0]}}}
	for m, err := range watch.Messages(ctx, options) {
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			h.note("stream", 0, err)
			return
		}
		if m.Type == watch.Disconnected {
			h.note("stream", 0, fmt.Errorf("the stream is cut: %w", m.Cause))
		}
		users := m.Users
		if m.User != nil {
			users = append(users, *m.User)
		}
		for _, p := range users {
			h.seen(p)
		}
	}
}

func (h *honest) seen(p schemas.User) {
	user, err := schemas.ParseUserID("user_id", p.UserID)
	if err != nil {
		h.note("stream", 0, err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if f, waits := h.flipped[user]; waits && p.State != nil && *p.State == f.to {
		f.of.note("stream", time.Since(f.at), nil)
		delete(h.flipped, user)
	}
}

// settle waits until everybody has come once.
func (h *honest) settle(ctx context.Context) {
	fmt.Printf("%d honest users come, which takes %s\n", honestUsers, beatEvery)
	pause(ctx, beatEvery+2*time.Second)
}

// phase lets time go by and returns what was felt in it.
func (h *honest) phase(ctx context.Context, name string, length time.Duration) *phase {
	fmt.Printf("%s: %s\n", name, length)
	p := newPhase(name)
	h.mu.Lock()
	h.now = p
	h.mu.Unlock()
	seconds := h.Metric("process_cpu_seconds_total")
	pause(ctx, length)
	p.cpu = 100 * (h.Metric("process_cpu_seconds_total") - seconds) / length.Seconds()
	p.resident, p.goroutines = int(h.Metric("process_resident_memory_bytes")/1e6), int(h.Metric("go_goroutines"))
	h.mu.Lock()
	h.now = newPhase("between")
	h.mu.Unlock()
	p.heap = math.MaxInt
	// What is on its way belongs to the phase in which it began.
	for range notSeen / lookEvery {
		if bytes := h.Metric("go_memstats_heap_alloc_bytes"); bytes > 0 {
			p.heap = min(p.heap, int(bytes/1e6))
		}
		pause(ctx, lookEvery)
	}
	h.overdue(time.Now())
	return p
}

// at is the time that the share of all requests of a kind took at most.
func (p *phase) at(kind string, share float64) time.Duration {
	all := slices.Sorted(slices.Values(p.took[kind]))
	if len(all) == 0 {
		return 0
	}
	return all[max(0, int(math.Ceil(share*float64(len(all))))-1)]
}

func (p *phase) print() {
	for _, kind := range kinds {
		fmt.Printf("| %s | %s | %d | %d | %s | %s | %s |\n", p.name, kind, len(p.took[kind]), p.failed[kind],
			p.at(kind, .5).Round(10*time.Microsecond), p.at(kind, .99).Round(10*time.Microsecond), p.at(kind, 1).Round(10*time.Microsecond))
	}
}

// floor is what a p99 is taken for at least: below it, ten times as long is still short,
// and on a quiet machine a single pause of the collector is ten times a p99.
const floor = 20 * time.Millisecond

// judge compares with the quiet phase.
func (p *phase) judge(t *testing.T, quiet *phase) {
	t.Helper()
	for _, kind := range kinds {
		if n := p.failed[kind]; n > 0 {
			t.Errorf("%s: %d of %d honest %ss failed, the first: %v", p.name, n, len(p.took[kind]), kind, p.first[kind])
		}
		if got, most := p.at(kind, .99), 10*max(quiet.at(kind, .99), floor); got > most {
			t.Errorf("%s: the p99 of a %s is %s, must be at most %s", p.name, kind, got, most)
		}
		if len(p.took[kind]) == 0 {
			t.Errorf("%s: no %s was measured", p.name, kind)
		}
	}
}

// What stays in memory after the attack, in MB: the state of the users whom the gateway
// reported, which dev holds five times (detector, Redis, Kafka, caches), and what the
// honest users have done meanwhile.
const (
	heapOfClaimed = claimed * 2000 / 1e6
	heapOfHonest  = 20
)

// memoryBack compares what is held before and after. The collector gives back little of the
// resident memory, and that slowly, hence the margin; what is kept shows in the heap.
func memoryBack(t *testing.T, before, after *phase) {
	t.Helper()
	for _, m := range []struct {
		what      string
		most, got int
	}{
		{"MB of heap in use", before.heap + heapOfClaimed + heapOfHonest, after.heap},
		{"MB of resident memory", before.resident + max(before.resident, 300), after.resident},
		{"goroutines", before.goroutines + 200, after.goroutines},
	} {
		if m.got > m.most {
			t.Errorf("%d %s after the attack, must be at most %d", m.got, m.what, m.most)
		}
	}
}
