package virtual

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/schemas"
)

// steadyUsers are people who beat every 15 s, each at another moment.
func steadyUsers(n int, from, to schemas.Millis) []*person {
	var people []*person
	for i := range schemas.Millis(n) {
		people = append(people, steady(schemas.UserID(i+1), from+i*15*second/schemas.Millis(n), to, 15*second))
	}
	return people
}

func TestScenario24NobodyWhoKeepsBeatingChangesWhileKafkaRefusesToWrite(t *testing.T) {
	long(t)
	inWorld(t, size{partitions: 2, tick: time.Second}, func(w *world) {
		p := w.start("all", "one")
		from := now() + second - now()%second
		end := from + 20*minute
		people := steadyUsers(8, from, end)
		gone := steady(20, from, from+2*minute+50*second, 15*second)
		var all sync.WaitGroup
		all.Go(func() { w.play(p.base, append(people, gone)...) })
		talker := steady(21, from+100, end, 15*second)
		all.Go(func() { talker.talk(w, p.base) })

		w.sleepTo(from + 3*minute)
		refusal := w.kafka.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
		stale := 0
		for range 120 {
			time.Sleep(time.Second)
			for _, user := range []schemas.UserID{1, 20, 21} {
				got := w.user(p.base, user)
				if word(got.State) != "online" {
					w.Errorf("during the outage user %d is %s", user, word(got.State))
				}
				if got.StaleSince != 0 {
					stale++
				}
			}
		}
		refusal.Remove()
		if stale < 3*100 {
			w.Errorf("only %d of 360 answers were said to be stale", stale)
		}
		time.Sleep(10 * time.Second)
		for user := schemas.UserID(1); user <= 8; user++ {
			if got := w.user(p.base, user); got.StaleSince != 0 || word(got.State) != "online" {
				w.Errorf("after the outage user %d is %s, stale since %s", user, word(got.State), clock(got.StaleSince))
			}
		}
		all.Wait()

		users := byUser(w.likeTheOracle())
		w.readsAre(p.base, users)
		p.stop()
		w.storedAre(users)
		refused := 0
		for _, someone := range people {
			refused += someone.refused
			w.only(users, someone.user, schemas.Online)
		}
		if refused < 8*6 {
			w.Errorf("only %d beats were refused in two minutes", refused)
		}
		w.only(users, 21, schemas.Online)
		w.only(users, 20, schemas.Online, schemas.Away, schemas.Offline)
	})
}

// only checks to which states a user has gone.
func (w *world) only(users map[schemas.UserID][]schemas.Transition, user schemas.UserID, states ...schemas.State) {
	w.Helper()
	got := users[user]
	for i := range max(len(got), len(states)) {
		if i >= len(got) || i >= len(states) || got[i].To != states[i] {
			w.Errorf("user %d goes to %v, want %v", user, changesOf(got), states)
			return
		}
	}
}

func TestScenario25ADetectorThatWasAwayInventsNoOfflineAndReportsTheTrueInstants(t *testing.T) {
	long(t)
	inWorld(t, size{partitions: 2, tick: time.Second}, func(w *world) {
		all := w.startAll()
		in, api := all["ingest"], all["api"]
		from := now() + second - now()%second
		end := from + 25*minute
		people := steadyUsers(8, from, end)
		// Somebody beats often enough in each partition for log time to go on without
		// ticks, or the silence would not count.
		for partition := range int32(2) {
			user := schemas.UserID(100)
			for schemas.PartitionOf(user, 2) != partition {
				user++
			}
			people = append(people, steady(user, from, end, 3*second))
		}
		before := steady(31, from+1, from+4*minute, 15*second) // goes a minute before
		during := steady(32, from+2, from+8*minute, 15*second)
		byes := steady(33, from+3, from+9*minute, 15*second)
		byes.reports = append(byes.reports, report{at: from + 9*minute + 5, bye: true})
		back := steady(34, from+4, from+6*minute, 15*second) // is offline for a while in between
		back.reports = append(back.reports, steady(34, from+12*minute+1, end, 15*second).reports...)
		people = append(people, before, during, byes, back)
		var sending sync.WaitGroup
		sending.Go(func() { w.play(in.base, people...) })

		w.sleepTo(from + 5*minute)
		all["detector"].stop()
		for range 60 {
			time.Sleep(10 * time.Second)
			for _, user := range []schemas.UserID{1, 32, 34} {
				if got := w.user(api.base, user); word(got.State) != "online" || got.StaleSince == 0 {
					w.Errorf("without a detector user %d is %s, stale since %s", user, word(got.State), clock(got.StaleSince))
				}
			}
		}
		w.start("detector", "detector")
		sending.Wait()
		time.Sleep(5 * time.Second)

		users := byUser(w.likeTheOracle())
		w.readsAre(api.base, users)
		for _, someone := range people {
			w.expected(someone, users[someone.user])
		}
		w.storedAre(users)
	})
}

// Some of the errors leave open whether the brokers have done what was asked.
func TestErrorsAtRandomChangeNothing(t *testing.T) {
	long(t)
	inWorld(t, size{partitions: 2, tick: time.Second}, func(w *world) {
		p := w.start("all", "one")
		from := now() + second - now()%second
		random := rand.New(rand.NewPCG(7, 7))
		var people []*person
		for user := schemas.UserID(1); user <= 12; user++ {
			h := habits{visits: 1, idles: user%3 == 0, flaps: true, saysBye: 0.5, beatEvery: 15 * second}
			people = append(people, &person{user: user, device: 7, kind: "web", reports: h.day(random, from, from+30*minute)})
		}
		var all sync.WaitGroup
		all.Go(func() { w.play(p.base, people...) })
		w.sleepTo(from + 5*minute)
		errors := w.kafka.ErrorsAtRandom(7, 40)
		time.Sleep(10 * time.Minute)
		errors.Stop()
		if n := errors.Count(); n < 100 {
			w.Errorf("%d requests were answered with errors, too few to tell anything", n)
		}
		all.Wait()
		time.Sleep(10 * time.Minute)
		users := byUser(w.likeTheOracle())
		w.readsAre(p.base, users)
		p.stop()
		w.storedAre(users)
	})
}

// onlyOnline checks that the users came online and stayed.
func (w *world) onlyOnline(users map[schemas.UserID][]schemas.Transition, first, last schemas.UserID) {
	w.Helper()
	for user := first; user <= last; user++ {
		w.only(users, user, schemas.Online)
	}
}
