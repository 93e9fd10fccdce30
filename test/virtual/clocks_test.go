package virtual

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/origin"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// The brokers' clock differs from those of the processes, and then is set right. Whatever it shows, no
// record of ours is refused, also not by a detector whose commit is lost.
func TestClocksOfBrokersAndProcessesMayDifferAndNothingIsRefused(t *testing.T) {
	for name, skew := range map[string]time.Duration{"5 minutes ahead": 5 * time.Minute, "5 minutes late": -5 * time.Minute,
		"20 minutes ahead": 20 * time.Minute, "an hour ahead": time.Hour, "an hour late": -time.Hour, "three days ahead": 72 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			if skew != 20*time.Minute {
				long(t)
			}
			of := size{partitions: 1, tick: time.Second, unsigned: skew.Abs() > 10*time.Minute} // which signed frames may not be off by
			inWorld(t, of, func(w *world) { differ(w, skew) })
		})
	}
}

func differ(w *world, skew time.Duration) {
	t := w.T
	openGraph(w, graph.Edge{User: 1, Follower: 4}, graph.Edge{User: 1, Follower: 5})
	w.config.Expand.Mode, w.config.Expand.HighFollower = expand.All, 1 // so there are jobs
	admin := w.keepHeartbeats()
	defer admin.Close()
	p := w.start("all", "one")
	w.kafka.SetClock(skew)
	delivered := w.logChannel(false)
	defer delivered.stop()
	beat := func(user schemas.UserID, bye bool) {
		w.mustPost(p.base, gateway{}, row{User: user, Device: 7, Kind: "mobile", Bye: bye})
	}
	is := func(user schemas.UserID, state string) func() bool {
		return func() bool { return word(w.user(p.base, user).State) == state }
	}
	changes := 0
	change := func(what string, bye bool, state string) {
		beat(1, bye)
		changes++
		w.until(what, time.Minute, is(1, state))
		w.until(what+" is delivered", time.Minute, func() bool { return len(delivered.of(1)) == changes })
	}
	for user := schemas.UserID(4); user <= 6; user++ {
		beat(user, false)
		w.until("a follower comes", time.Minute, is(user, "online"))
	}
	change("the user comes", false, "online")
	w.kafka.SetClock(0)
	change("the user leaves", true, "offline")
	change("the user comes again", false, "online")
	beat(4, false)
	beat(5, false)
	p.stop()
	time.Sleep(10 * time.Second) // until the group has forgotten its member

	answers, err := admin.DeleteGroups(t.Context(), clusterOf(w.config).GroupName(origin.DetectorGroup))
	must.Do(t, errors.Join(err, answers.Error()))
	p = w.start("all", "one")
	if skew <= time.Hour {
		time.Sleep(skew) // nothing is due before the log time that was reached
		w.until("nobody is a ghost", 10*time.Minute, func() bool {
			for _, state := range w.batch(p.base, "1", "4", "5", "6") {
				if word(state) != "offline" {
					return false
				}
			}
			return true
		})
		beat(4, false)
		w.until("a follower comes", time.Minute, is(4, "online"))
		changes = len(delivered.of(1))
		change("the user comes after the commit was lost", false, "online")
	}
	p.stop()
	for _, topic := range []schemas.Topic{schemas.Heartbeats, schemas.Transitions, schemas.Statuses, schemas.SeenHints, schemas.Fanout, schemas.Deliveries} {
		if n := w.deadLetters(topic); n != 0 {
			t.Errorf("%d records of %s were refused", n, topic)
		}
	}
}

// keepHeartbeats for a day, by a client that the caller closes: the stand-in's retention goes by
// another clock than its append time.
func (w *world) keepHeartbeats() *kadm.Client {
	w.Helper()
	client := must.Get(kafka.NewClient(clusterOf(w.config), w.log))(w)
	admin, day := kadm.NewClient(client), "86400000"
	keep := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &day}}
	must.Get(admin.AlterTopicConfigs(w.Context(), keep, schemas.Heartbeats.Name(schemas.DefaultPrefix)))(w)
	return admin
}

// While the brokers' clock is an hour off no signed frame counts, and nobody changes. Once it is right those who still
// beat stay, and those who left meanwhile go by their limits.
func TestABrokersClockThatIsAnHourOffStopsSignedHeartbeatsAndTakesNobodyOffline(t *testing.T) {
	for name, skew := range map[string]time.Duration{"ahead": time.Hour, "late": -time.Hour} {
		for _, lasts := range []schemas.Millis{8 * minute, 45 * minute} {
			t.Run(fmt.Sprintf("%s for %d minutes", name, lasts/minute), func(t *testing.T) {
				if lasts > 8*minute {
					long(t)
				}
				inWorld(t, size{partitions: 2, tick: time.Second}, func(w *world) { clockOff(w, skew, lasts) })
			})
		}
	}
}

func clockOff(w *world, skew time.Duration, lasts schemas.Millis) {
	w.keepHeartbeats().Close()
	p := w.start("all", "one")
	from := now() + second - now()%second
	off := from + 3*minute
	right := off + lasts
	people := steadyUsers(8, from, right+6*minute)
	gone := steady(20, from, off+minute, 15*second)
	var sending sync.WaitGroup
	sending.Go(func() { w.play(p.base, append(people, gone)...) })
	w.sleepTo(off + 7)
	before := w.deadLetters(schemas.Heartbeats)
	w.kafka.SetClock(skew)
	w.sleepTo(right - second)
	for user := range schemas.UserID(20) {
		want := "offline" // never seen
		if user+1 <= 8 || user+1 == 20 {
			want = "online"
		}
		if state := word(w.user(p.base, user+1).State); state != want {
			w.Errorf("user %d is %s while the clock is off, want %s", user+1, state, want)
		}
	}
	w.sleepTo(right + 7)
	w.kafka.SetClock(0)
	// Four beats a minute of each who beats, and a tick a second in each partition.
	if n, least := w.deadLetters(schemas.Heartbeats)-before, int(lasts/minute)*(8*4+2*50); before != 0 || n < least {
		w.Errorf("%d records were refused, and %d before; want %d at least", n, before, least)
	}
	sending.Wait()
	users := byUser(w.likeTheOracle())
	for _, someone := range people {
		w.only(users, someone.user, schemas.Online)
	}
	w.only(users, gone.user, schemas.Online, schemas.Away, schemas.Offline)
	if gone := users[20]; len(gone) == 3 && gone[1].At < right {
		w.Errorf("user 20 went before the clock was right: %v", changesOf(gone))
	}
	p.stop()
	w.storedAre(users)
}
