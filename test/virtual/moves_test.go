package virtual

import (
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// inFleet runs test in a world with every role in processes of its own, and with
// people: the steadfast, and some more.
func inFleet(t *testing.T, test func(w *world, f *fleet)) {
	t.Helper()
	inWorld(t, size{partitions: 2, tick: 500 * time.Millisecond}, func(w *world) {
		f := newFleet(w)
		over := make(chan struct{})
		from := now() + second - now()%second
		var living sync.WaitGroup
		for i, user := range steadfast {
			living.Go(func() { f.keepBeating(user, from+schemas.Millis(i)*second, over, 5*second) })
		}
		living.Go(func() { f.people(7, from, over) })
		time.Sleep(2 * time.Minute)
		test(w, f)
		f.recover()
		f.stopped = now()
		close(over)
		living.Wait()
		time.Sleep(time.Minute)
		users := byUser(w.likeTheOracle())
		w.readsAre(f.base("api"), users)
		f.steadfastStayed(users)
		f.end()
		w.storedAre(users)
	})
}

func TestScenarios26And27KillsOfDetectorsWhosePartitionsMoveChangeNothing(t *testing.T) {
	long(t)
	inFleet(t, func(w *world, f *fleet) {
		rounds := 30
		if testing.Short() {
			rounds = 9
		}
		for round := range rounds {
			m := f.members[1+round%2] // one detector after the other
			// Longer than the group waits for it, or not.
			down := []time.Duration{time.Millisecond, 700 * time.Millisecond, 9 * time.Second}[round%3]
			m.give(order{kill: true, down: down})
			time.Sleep(time.Duration(round*137) * time.Millisecond)
		}
	})
}

func TestARestartOfEveryProcessInTurnPublishesNothingOfThoseWhoStay(t *testing.T) {
	long(t)
	inFleet(t, func(w *world, f *fleet) {
		for _, m := range f.members {
			m.give(order{down: 500 * time.Millisecond})
			time.Sleep(5 * time.Second)
		}
		for _, m := range f.members {
			if !testing.Short() {
				m.give(order{down: 20 * time.Second})
				f.recover()
			}
		}
	})
}

// steadfastStayed checks that who never stopped beating never went.
func (f *fleet) steadfastStayed(users map[schemas.UserID][]schemas.Transition) {
	f.w.Helper()
	for _, user := range steadfast {
		all := users[user]
		if len(all) == 0 || all[0].To != schemas.Online {
			f.w.Errorf("user %d, who never stopped beating, went %v", user, changesOf(all))
		}
		for i := range all {
			if all[i].To != schemas.Online && all[i].At < f.stopped {
				f.w.Errorf("user %d, who beat until %s, went: %s", user, clock(f.stopped), line(&all[i]))
			}
		}
	}
}

func TestAKilledDetectorIsReplacedInLessThanTenSeconds(t *testing.T) {
	long(t)
	inFleet(t, func(w *world, f *fleet) {
		killed := now()
		var back sync.WaitGroup
		back.Go(func() { f.members[1].give(order{kill: true, down: time.Minute}) })
		for user := schemas.UserID(1000); user < 1010; user++ { // in both partitions
			if !f.post(gateway{}, row{User: user, Device: 1, Kind: "web"}) {
				w.Errorf("the beat of user %d was refused", user)
			}
		}
		w.until("everybody is online", 20*time.Second, func() bool {
			for user := schemas.UserID(1000); user < 1010; user++ {
				if word(w.user(f.base("api"), user).State) != "online" {
					return false
				}
			}
			return true
		})
		took := now() - killed
		w.Logf("%d ms after the kill everybody was online", took)
		if took > 10*second {
			w.Errorf("it took %d ms until everybody was online", took)
		}
		back.Wait()
	})
}
