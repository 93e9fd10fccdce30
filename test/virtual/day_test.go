package virtual

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// TestAVirtualDayOf50UsersIsStoredAsTheRulesSay lets a day pass for people of all
// habits, through every endpoint, and compares what is stored and answered with
// what the rules make of it.
func TestAVirtualDayOf50UsersIsStoredAsTheRulesSay(t *testing.T) {
	long(t)
	inBothWorlds(t, size{partitions: 2, slow: true, limit: 12 * time.Minute}, func(w *world) {
		p := w.start("all", "one")
		random := rand.New(rand.NewPCG(50, 24))
		midnight := now() - now()%hour + hour
		end := midnight + 24*hour
		var all sync.WaitGroup

		people := dayPeople(random, midnight, end)
		watched := []schemas.UserID{1, 2, 3, 8, 12, 27, 28}
		viewer := w.watch(p.base, watched...)
		for _, someone := range people {
			all.Go(func() {
				if someone.user > 26 {
					someone.talk(w, p.base)
				} else {
					someone.sendAll(w, p.base)
				}
			})
		}
		literal := literalPeople(midnight)
		for _, someone := range literal {
			all.Go(func() { someone.sendAll(w, p.base) })
		}
		var members []schemas.UserID
		for user := schemas.UserID(33); user <= 50; user++ {
			members = append(members, user)
		}
		others := newPopulation(w, p.base, random, 3, members)
		all.Go(func() {
			others.live(midnight+2*hour, midnight+3*hour)
			others.live(midnight+12*hour, midnight+12*hour+45*minute)
			others.live(end-30*minute, end-3*second)
		})
		shy := rand.New(rand.NewPCG(1, 1))
		all.Go(func() { changeVisibility(w, p.base, shy, midnight, end) })
		all.Go(func() { lookNowAndThen(w, p.base, midnight, end) })
		all.Wait()
		w.sleepTo(end + 10*second)

		users := byUser(w.likeTheOracle())
		w.Logf("%d heartbeat records, %d transitions", len(w.tap.records[0])+len(w.tap.records[1]), count(users))
		stored := users
		users = w.byNumber(users)
		for user := schemas.UserID(1); user <= 50; user++ {
			if user != 4 && len(users[user]) == 0 {
				w.Errorf("user %d has no changes", user)
			}
		}
		w.readsAre(p.base, users)
		for _, someone := range people {
			if !changesVisibility(someone.user) {
				w.expected(someone, users[someone.user])
			}
		}
		for user, want := range literalChanges(midnight) {
			if got := changesOf(users[user]); !slices.Equal(got, want) {
				w.Errorf("user %d:\n%v, want\n%v", user, got, want)
			}
		}
		for _, user := range watched {
			w.streamed(viewer, user, users[user])
		}
		viewer.stop()
		p.stop()
		w.storedAre(stored)
	})
}

// changesVisibility is true for the users who change their visibility.
func changesVisibility(user schemas.UserID) bool {
	return user >= 20 && user <= 23 || user >= 33 && user <= 35
}

// dayPeople are users 5 to 32: each with one device and habits of their own. Some
// are there at the end, some have just gone.
func dayPeople(random *rand.Rand, from, to schemas.Millis) []*person {
	var people []*person
	for user := schemas.UserID(5); user <= 32; user++ {
		h := habits{visits: 2 + random.IntN(5), idles: user%3 == 0, flaps: user%4 == 0, saysBye: random.Float64(), beatEvery: 15 * second}
		p := &person{user: user, device: schemas.DeviceID(user) * 10, kind: kinds[int(user)%len(kinds)]}
		if user > 26 {
			// While there are sockets there are alive frames, which take real time.
			p.reports = h.day(random, from+6*hour, from+11*hour)
		} else {
			p.reports = h.day(random, from, to-20*minute)
		}
		last := to - minute - rand64(random, 10*minute)
		if user%2 == 0 {
			last = to
		}
		if user%5 > 0 {
			for at := to - 12*minute + rand64(random, 15*second); at < last; at += 15 * second {
				p.reports = append(p.reports, report{at: at})
			}
		}
		if user > 26 {
			p.reports = slowToLeave(p.reports)
		}
		people = append(people, p)
	}
	return people
}

// slowToLeave leaves out beats right before a bye. The client of the sockets
// keeps a repeated beat for the next flush, up to a second, and a bye replaces it:
// what the beat said of activity is lost then.
func slowToLeave(reports []report) []report {
	var kept []report
	for i, r := range reports {
		if next := i + 1; next < len(reports) && reports[next].bye && !r.bye && reports[next].at-r.at <= second {
			continue
		}
		kept = append(kept, r)
	}
	return kept
}

// changeVisibility lets some users change their visibility every few minutes to hours.
func changeVisibility(w *world, base string, random *rand.Rand, from, to schemas.Millis) {
	for at := from + rand64(random, hour); at < to; at += rand64(random, hour) {
		w.sleepTo(at)
		users := []schemas.UserID{20, 21, 22, 23, 33, 34, 35}
		w.show(base, users[random.IntN(len(users))], []string{"nobody", "everyone"}[random.IntN(2)])
	}
}

// lookNowAndThen reads; nothing may ever be stale.
func lookNowAndThen(w *world, base string, from, to schemas.Millis) {
	for at := from; at < to; at += 17 * minute {
		w.sleepTo(at)
		for _, user := range []schemas.UserID{1, 30, 50} {
			if p := w.user(base, user); p.StaleSince != 0 {
				w.Errorf("at %s user %d is stale since %s", clock(at), user, clock(p.StaleSince))
			}
		}
		if status, answer := w.ask(http.MethodGet, base+"/presence/5/history?limit=5", nil); status != http.StatusOK {
			w.Errorf("the history is answered %d %s", status, answer)
		}
	}
}
