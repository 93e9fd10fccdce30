package virtual

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestScenario10ALimitThatIsChangedHoldsForThoseWhoAreOnlineAlready(t *testing.T) {
	inWorld(t, size{partitions: 1}, func(w *world) {
		p := w.start("all", "one")
		from := now()
		w.mustPost(p.base, gateway{}, row{User: 1, Device: 7, Kind: "web"})
		w.sleepTo(from + 10*second)
		p.stop()
		asked := policy.Change{Policy: w.config.Policy, Names: []string{"online_ttl"}}
		asked.Policy.OnlineTTL = time.Minute
		ask := func(c *app.Config) { c.Policy, c.PolicyAsked = asked.Policy, asked.Names }
		p = w.begin("all", "one", ask)
		if err := <-p.ended; err == nil || !strings.Contains(err.Error(), "online_ttl: this process was started with 1m0s, in force is 30s") {
			w.Fatalf("a process with another policy than the one in force ended with %v", err)
		}
		p.ended <- nil
		must.Do(w, policy.Set(context.Background(), clusterOf(w.config), asked.To(w.config.Policy), w.log))
		p = w.start("all", "one")
		w.sleepTo(from + 15*second)
		p.stop()
		p = w.start("all", "one", ask)
		w.sleepTo(from + 2*minute)
		w.tap.catchUp()
		users := byUser(w.tap.committed())
		w.only(users, 1, schemas.Online, schemas.Away)
		// The log stood still between the two lives, but for less than counts.
		if away := users[1][1]; away.At != from+75*second {
			w.Errorf("with the new limit the user went %s, want %s", line(&away), clock(from+75*second))
		}
		p.stop()
	})
}

func TestScenario28UsersWhoDoNotReturnWithTheDetectorsGoByTheirLimits(t *testing.T) {
	long(t)
	inWorld(t, size{partitions: 2}, func(w *world) {
		all := w.startAll()
		from := now()
		for user := schemas.UserID(1); user <= 20; user++ {
			w.sleepTo(from + schemas.Millis(user)*second)
			w.mustPost(all["ingest"].base, gateway{}, row{User: user, Device: 1, Kind: "web"})
		}
		all["detector"].stop()
		time.Sleep(10 * time.Minute)
		back := now()
		w.start("detector", "detector")
		time.Sleep(6 * time.Minute)
		users := byUser(w.likeTheOracle())
		seen := map[schemas.Millis]bool{}
		for user := schemas.UserID(1); user <= 20; user++ {
			w.only(users, user, schemas.Online, schemas.Away, schemas.Offline)
			away := users[user][1]
			// Of the silence while nobody ticked five seconds count.
			if left := away.At - back; left < 0 || left > 45*second || seen[left] {
				w.Errorf("user %d went %s after the detector was back at %s", user, line(&away), clock(back))
			}
			seen[away.At-back] = true
		}
		w.readsAre(all["api"].base, users)
	})
}

func TestTicksThatDoNotComeDelayNothingWhileOthersBeat(t *testing.T) {
	inWorld(t, size{partitions: 1}, func(w *world) {
		all := w.startAll() // a tick that waits holds up what its process writes after it
		from := now() + second - now()%second
		people := []*person{steady(1, from, from+8*minute, 2*second), steady(2, from+500, from+8*minute, 15*second), steady(3, from+700, from+minute, 15*second)}
		var sending sync.WaitGroup
		sending.Go(func() { w.play(all["ingest"].base, people...) })
		w.sleepTo(from + 30*second)
		blocked := w.kafka.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1, When: onlyTicks})
		w.sleepTo(from + 7*minute)
		if blocked.Hits() == 0 {
			w.Error("no tick was blocked")
		}
		w.tap.catchUp()
		ticks := 0
		for _, r := range w.tap.records[0] {
			var f schemas.Frame
			must.Do(w, f.Decode(r.Value))
			if f.Tick && r.Time > from+31*second {
				ticks++
			}
		}
		if ticks > 0 {
			w.Errorf("%d ticks came through", ticks)
		}
		users := byUser(w.likeTheOracle())
		for _, someone := range people {
			w.only(users, someone.user, map[bool][]schemas.State{true: {schemas.Online}, false: {schemas.Online, schemas.Away, schemas.Offline}}[someone.user < 3]...)
		}
		if gone := users[3]; len(gone) == 3 && (gone[1].At != from+700+45*second+45*second || gone[2].At != from+700+45*second+5*minute) {
			w.Errorf("user 3 went %v", changesOf(gone))
		}
		blocked.Remove()
		sending.Wait()
	})
}

func TestAClockOfTheBrokersThatJumpsTakesNobodyOffline(t *testing.T) {
	long(t)
	for name, jump := range map[string]time.Duration{"an hour ahead": time.Hour, "ten minutes back": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, size{partitions: 2, tick: time.Second, unsigned: jump > 0}, func(w *world) {
				p := w.start("all", "one")
				from := now() + second - now()%second
				people := steadyUsers(8, from, from+10*minute)
				gone := steady(20, from, from+minute, 15*second)
				var sending sync.WaitGroup
				sending.Go(func() { w.play(p.base, append(people, gone)...) })
				w.sleepTo(from + 3*minute + 7)
				w.kafka.SetClock(jump)
				sending.Wait()
				time.Sleep(10 * time.Second)
				users := byUser(w.likeTheOracle())
				for _, someone := range people {
					w.only(users, someone.user, schemas.Online)
				}
				want := []schemas.State{schemas.Online, schemas.Away, schemas.Offline}
				if jump < 0 {
					want = want[:2] // log time waits for the clock to come back
				}
				w.only(users, 20, want...)
				p.stop()
				w.storedAre(users)
			})
		})
	}
}

// A tick costs the brokers as much as a transition. Those that nobody needs are left out, and no change is later for it.
func TestTicksComeOftenOnlyWhereSomethingIsDue(t *testing.T) {
	inWorld(t, size{partitions: 1}, func(w *world) {
		p := w.start("all", "one")
		defer w.connect(p.base, 21, 1, "web").lose()
		time.Sleep(time.Minute) // the first snapshot is written, 21 has its lease
		quiet := now()
		w.sleepTo(quiet + minute)
		busy := now()
		const people = 20
		for user := schemas.UserID(1); user <= people; user++ {
			w.sleepTo(busy + 777*schemas.Millis(user))
			w.mustPost(p.base, gateway{}, row{User: user, Device: 1, Kind: "web"})
		}
		w.sleepTo(busy + 6*minute)
		changes := 0
		w.read(schemas.Transitions, func(r *schemas.Record) error {
			tr, err := schemas.DecodeTransition(r.Value)
			if changes++; tr != nil && r.Time-tr.At > 700 { // lateness, a tick, and a commit
				t.Errorf("published %d ms late: %s", r.Time-tr.At, line(tr))
			}
			return err
		})
		ticks, gap, last := 0, schemas.Millis(0), quiet
		w.read(schemas.Heartbeats, func(r *schemas.Record) error {
			var f schemas.Frame
			if f.Decode(r.Value) == nil && f.Tick && quiet < r.Time && r.Time <= busy {
				ticks, gap, last = ticks+1, max(gap, r.Time-last), r.Time
			}
			return nil
		})
		if ticks < 50 || ticks > 75 || gap > 1250 || changes != 1+3*people {
			t.Errorf("%d ticks in a minute without changes, %d ms between two of them, %d changes", ticks, gap, changes)
		}
		p.stop()
	})
}
