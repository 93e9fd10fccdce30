package virtual

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// What TestSimulatedHours simulates:
//
//	go test -tags synctests ./test/virtual -run TestSimulatedHours -v -sim.seed 42 -sim.hours 4
var (
	simSeed  = flag.Uint64("sim.seed", 0, "the first seed of TestSimulatedHours; 0: another one in every run, which is printed")
	simSeeds = flag.Uint64("sim.seeds", 1, "how many seeds, one after the other")
	simHours = flag.Float64("sim.hours", 0.2, "virtual hours for each seed; half of it under -short")
)

// TestSimulatedHours lets hours pass for the whole pipeline, every role in
// processes of its own, with faults in every virtual minute: processes crash, freeze
// and are restarted, Kafka refuses, leads from elsewhere or stands still, Redis
// forgets, gateways crash, ticks do not come. In the end everything that is stored,
// answered and streamed must be what the rules make of the heartbeats that are in
// the log, and those who never stopped beating must never have gone.
//
// The seed decides what happens when. Who of two that are ready runs first it does
// not decide, so a failure that hangs on it may need its seed more than once.
func TestSimulatedHours(t *testing.T) {
	long(t)
	seed, hours := *simSeed, *simHours
	if testing.Short() {
		hours /= 2
	}
	if seed == 0 {
		seed = rand.Uint64N(1_000_000)
	}
	for s := seed; s < seed+*simSeeds; s++ {
		t.Run(fmt.Sprint("seed ", s), func(t *testing.T) {
			t.Logf("again: go test -tags synctests ./test/virtual -run TestSimulatedHours -v -sim.seed %d -sim.hours %g", s, hours)
			begun, said := time.Now(), ""
			inWorld(t, size{partitions: 2, brokers: 3, tick: 500 * time.Millisecond, limit: 2 * time.Hour}, func(w *world) { said = simulate(w, s, hours) })
			t.Logf("seed %d: %s; %s in real time", s, said, time.Since(begun).Round(time.Second))
		})
	}
}

// steadfast are users who never stop beating.
var steadfast = []schemas.UserID{1, 2, 3, 4}

// calmEvery is after how many minutes of faults all must be well again.
const calmEvery = 10

func simulate(w *world, seed uint64, hours float64) (said string) {
	f := newFleet(w)
	random := rand.New(rand.NewPCG(seed, 0x57111))
	from := now() + second - now()%second
	minutes := max(1, int(hours*60))
	watched := w.listen(watch.Options{URL: f.base("api") + "/presence/stream", Users: texts([]schemas.UserID{1, 30, 31, 40})})
	over := make(chan struct{})
	var living sync.WaitGroup
	for i, user := range steadfast {
		living.Go(func() { f.keepBeating(user, from+schemas.Millis(i)*second, over, 5*second) })
	}
	habit := random.Uint64()
	living.Go(func() { f.people(habit, from, over) })
	t := &trouble{fleet: f, random: random, producer: w.producer()}
	slowest := time.Duration(0)
	for i := range minutes {
		t.minute()
		if (i+1)%calmEvery == 0 || i+1 == minutes {
			t.under.Wait()
			w.kafka.SetClock(0)
			slowest = max(slowest, f.recover())
		}
	}
	f.stopped = now()
	close(over)
	living.Wait()
	time.Sleep(6 * time.Minute) // everybody else is offline then
	if why := f.allReady(); why != "" {
		w.Errorf("in the end not everything is ready: %s", why)
	}
	users := byUser(w.likeTheOracle())
	f.steadfastStayed(users)
	w.readsAre(f.base("api"), users)
	watched.stop()
	watched.check(w, users)
	f.end()
	w.storedAre(users)
	return fmt.Sprintf("%d virtual minutes, %d heartbeats records, %d transitions of %d users, all as the rules want; all well again after %s at most; %s",
		minutes, len(w.tap.records[0])+len(w.tap.records[1]), count(users), len(users), slowest.Round(100*time.Millisecond), f.faults())
}

// recover waits until everything is ready and answers are fresh, and tells how long
// it took.
func (f *fleet) recover() time.Duration {
	f.w.Helper()
	begun := time.Now()
	f.w.until("everything is well again", 3*time.Minute, func() bool {
		if f.allReady() != "" {
			return false
		}
		for _, user := range steadfast {
			if status, text := f.w.try(http.MethodGet, f.base("api")+"/presence/"+user.String(), nil); status != http.StatusOK || !strings.Contains(string(text), `"stale_since":null`) {
				return false
			}
		}
		return true
	})
	return time.Since(begun)
}

// endpoint is where a member's endpoints are.
func (f *fleet) base(name string) string {
	for _, m := range f.members {
		if m.name == name {
			p, _ := m.now()
			return p.base
		}
	}
	return ""
}

// faults lists what happened, for people.
func (f *fleet) faults() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(f.counts)) {
		all = append(all, fmt.Sprintf("%s %d×", what, f.counts[what]))
	}
	return strings.Join(all, ", ")
}

// people are everybody but the steadfast: a population behind gateways that crash, and some
// who beat by themselves.
func (f *fleet) people(seed uint64, from schemas.Millis, over <-chan struct{}) {
	var all sync.WaitGroup
	for user := schemas.UserID(10); user < 20; user++ {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(user)))
			h := habits{visits: 4, idles: user%3 == 0, flaps: user%2 == 0, saysBye: 0.5, beatEvery: 15 * second}
			for day := from; !select1(over); day += hour {
				for _, r := range h.day(random, day, day+hour) {
					if !sleepUnless(over, r.at) {
						return
					}
					f.post(gateway{}, row{User: user, Device: 7, Kind: "web", Bye: r.bye, Idle: r.idle})
				}
			}
		})
	}
	var members []schemas.UserID
	for user := schemas.UserID(30); user < 45; user++ {
		members = append(members, user)
	}
	c := newPopulation(f.w, "", rand.New(rand.NewPCG(seed, 0)), 3, members)
	c.post = func(g gateway, rows ...row) { f.post(g, rows...) }
	c.pace = func(at schemas.Millis) { time.Sleep(time.Until(at.Time())) }
	c.lives = 5 * minute
	for begin := from; !select1(over); begin = now() + second - now()%second {
		c.live(begin, begin+10*minute)
	}
	all.Wait()
}

// sleepUnless sleeps until an instant; false if it was over before.
func sleepUnless(over <-chan struct{}, at schemas.Millis) bool {
	timer := time.NewTimer(time.Until(at.Time()))
	defer timer.Stop()
	select {
	case <-over:
		return false
	case <-timer.C:
		return true
	}
}

// check holds what a viewer heard last of every user to what was published last.
func (v *viewer) check(w *world, users map[schemas.UserID][]schemas.Transition) {
	w.Helper()
	last := map[string]schemas.User{}
	for _, m := range v.heard {
		all := m.Users
		if m.User != nil {
			all = append(all, *m.User)
		}
		for _, now := range all {
			if before, known := last[now.UserID]; known && m.Type == watch.Change && now.VersionNumber() <= before.VersionNumber() {
				w.Errorf("a viewer heard version %s of user %s after %s", now.Version, now.UserID, before.Version)
			}
			last[now.UserID] = now
		}
	}
	for text, heard := range last {
		user := must.Get(schemas.ParseUserID("user_id", text))(w)
		want := schemas.PresenceOf(current(users[user]), 0, 0)
		if word(heard.State) != word(want.State) || len(users[user]) > 0 && want.State != nil && heard.Version != want.Version {
			w.Errorf("a viewer heard last of user %d %s in version %s; it is %s in version %s", user, word(heard.State), heard.Version, word(want.State), want.Version)
		}
	}
}
