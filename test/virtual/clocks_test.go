package virtual

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/sqlitegraph"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/origin"
	"github.com/stillhere/stillhere/schemas"
)

// The brokers' clock differs from those of the processes, and then is set right. Whatever it shows, no
// record of ours is refused, also not by a detector whose commit is lost.
func TestClocksOfBrokersAndProcessesMayDifferAndNothingIsRefused(t *testing.T) {
	for name, skew := range map[string]time.Duration{"5 minutes ahead": 5 * time.Minute, "5 minutes late": -5 * time.Minute,
		"an hour ahead": time.Hour, "an hour late": -time.Hour, "three days ahead": 72 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			if skew != time.Hour {
				long(t)
			}
			of := size{partitions: 1, tick: time.Second, unsigned: skew.Abs() > 10*time.Minute} // which signed frames may not be off by
			inWorld(t, of, func(w *world) { differ(w, skew) })
		})
	}
}

func differ(w *world, skew time.Duration) {
	t := w.T
	w.config.Graph = app.Store{SQLite: filepath.Join(filepath.Dir(w.config.Store.SQLite), "graph.db")}
	w.config.Expand.Mode, w.config.Expand.HighFollower = expand.All, 1 // so there are jobs
	g, err := sqlitegraph.Open(t.Context(), w.config.Graph.SQLite)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if _, err := g.Add(t.Context(), []graph.Edge{{User: 1, Follower: 4}, {User: 1, Follower: 5}}); err != nil {
		t.Fatal(err)
	}
	client, err := kafka.NewClient(clusterOf(w.config), w.log)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	day := "86400000" // the stand-in's retention goes by another clock than its append time
	keep := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &day}}
	if _, err := admin.AlterTopicConfigs(t.Context(), keep, schemas.Heartbeats.Name(schemas.DefaultPrefix)); err != nil {
		t.Fatal(err)
	}
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
	if err := errors.Join(err, answers.Error()); err != nil {
		t.Fatal(err)
	}
	p = w.start("all", "one")
	if skew <= time.Hour { // nothing is due before the log time that was reached
		w.until("nobody is a ghost", skew.Abs()+10*time.Minute, func() bool {
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

// Signed frames do not count while the brokers' clock is an hour off: nobody changes, and then all goes on.
func TestABrokersClockThatIsAnHourOffStopsSignedHeartbeatsAndTakesNobodyOffline(t *testing.T) {
	for name, skew := range map[string]time.Duration{"ahead": time.Hour, "late": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, size{partitions: 1, tick: time.Second}, func(w *world) {
				p := w.start("all", "one")
				beat := func(bye bool) {
					w.mustPost(p.base, gateway{}, row{User: 1, Device: 7, Kind: "mobile", Bye: bye})
				}
				for i := range 40 { // ten minutes
					beat(false)
					time.Sleep(15 * time.Second)
					switch i {
					case 3:
						w.kafka.SetClock(skew)
					case 30:
						w.kafka.SetClock(0)
					}
				}
				beat(true)
				w.until("the bye counts", time.Minute, func() bool { return word(w.user(p.base, 1).State) == "offline" })
				w.only(byUser(w.likeTheOracle()), 1, schemas.Online, schemas.Offline)
				if n := w.deadLetters(schemas.Heartbeats); n < 27 {
					w.Errorf("%d records were refused", n)
				}
			})
		})
	}
}
