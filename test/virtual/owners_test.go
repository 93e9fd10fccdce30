//go:build synctests

package virtual

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/schemas"
)

// beats lets seconds pass in which a user of another gateway beats, so that log time goes on.
func (w *world) beats(p *process, seconds int) {
	w.Helper()
	for range seconds / 2 {
		w.mustPost(p.base, gateway{"lives", began}, row{User: 21, Device: 1, Kind: "mobile"})
		time.Sleep(2 * time.Second)
	}
}

// connected is a world in which users connect while their detector is not there, or does not work.
type connected struct {
	*world
	ingest, detector *process
	mend             func()
	lossy            bool
}

func (c *connected) pass(seconds int) { c.beats(c.ingest, seconds) }

func (c *connected) leave() { c.detector.stop() }

// breaks begins a fault that mend ends.
func (c *connected) breaks(of kfake.Fault) { c.mend = c.kafka.Cluster().Fault(of).Remove }

func (c *connected) isBack() {
	c.pass(150)
	c.start("detector", "detector")
}

func (c *connected) lasts() {
	c.pass(90)
	c.mend()
}

// cannotRead refuses to let anybody read a topic.
func cannotRead(topic schemas.Topic) kfake.Fault {
	return kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic.Name(schemas.DefaultPrefix),
		Err: kerr.ReplicaNotAvailable, Count: -1}
}

// Users whose gateway is there all the time stay online.
func TestConnectionsStayWhateverHappensToTheDetector(t *testing.T) {
	long(t)
	for name, what := range map[string]struct{ before, after func(c *connected) }{
		"it is away": {(*connected).leave, (*connected).isBack},
		"it is away for longer than heartbeats are kept": {func(c *connected) {
			c.leave()
			c.pass(1080)
			c.lossy = true
		}, (*connected).isBack},
		"it is stopped again before it catches up": {(*connected).leave, func(c *connected) {
			c.pass(150)
			c.breaks(cannotRead(schemas.Heartbeats))
			d := c.begin("detector", "detector-2")
			time.Sleep(3 * time.Second)
			d.stop()
			c.mend()
			c.pass(60)
			c.start("detector", "detector")
		}},
		"it is stopped soon after each start": {(*connected).leave, func(c *connected) {
			for i, life := range []time.Duration{200, 300, 400, 600, 1000, 1500} {
				c.pass(30)
				d := c.begin("detector", fmt.Sprint("detector-", i))
				time.Sleep(life * time.Millisecond)
				d.stop()
			}
			c.isBack()
		}},
		"it is back and cannot read gateways yet": {(*connected).leave, func(c *connected) {
			c.pass(150)
			c.breaks(cannotRead(schemas.Gateways))
			c.begin("detector", "detector")
			c.pass(26)
			c.mend()
		}},
		"it cannot commit": {func(c *connected) {
			c.breaks(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true, Err: kerr.CoordinatorLoadInProgress, Count: -1})
		}, (*connected).lasts},
		"it cannot read heartbeats": {func(c *connected) { c.breaks(cannotRead(schemas.Heartbeats)) }, (*connected).lasts},
		"it cannot read gateways":   {func(c *connected) { c.breaks(cannotRead(schemas.Gateways)) }, (*connected).lasts},
		"nobody can write gateways": {func(c *connected) {
			c.breaks(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: schemas.Gateways.Name(schemas.DefaultPrefix),
				Err: kerr.NotEnoughReplicas, Count: -1})
		}, (*connected).lasts},
		"it is cut off": {func(c *connected) {
			c.leave()
			w := newWire()
			c.start("detector", "detector-2", func(of *app.Config) { of.Kafka.Dialer = w.dial(of.Kafka.Dialer) })
			c.pass(30)
			w.freeze()
			c.mend = w.thaw
		}, (*connected).lasts},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, size{partitions: 1}, func(w *world) {
				all := w.startAll()
				c := &connected{world: w, ingest: all["ingest"], detector: all["detector"]}
				c.stay(what.before, what.after)
			})
		})
	}
}

func TestConnectionsStayThatOpenBeforeTheFirstDetectorRuns(t *testing.T) {
	long(t)
	inWorld(t, size{partitions: 1}, func(w *world) {
		w.start("lastseen", "lastseen")
		c := &connected{world: w, ingest: w.start("ingest", "ingest")}
		c.stay(func(*connected) {}, (*connected).isBack)
	})
}

// stay holds that users stay online who connect between before and after, until five minutes later.
func (c *connected) stay(before, after func(c *connected)) {
	c.Helper()
	c.pass(30)
	before(c)
	time.Sleep(time.Second)
	for user := schemas.UserID(1); user <= 20; user++ {
		defer c.connect(c.ingest.base, user, 1, "mobile").lose()
	}
	after(c)
	c.pass(300)
	if c.tap.catchUp(); !c.lossy {
		c.likeTheOracle()
	}
	c.onlyOnline(byUser(c.tap.committed()), 1, 20)
}

// The detector is away for 12 minutes. Meanwhile users connect, and a gateway dies: those who are connected to it leave
// soon after the detector is back.
func TestOnlyDevicesOfTheDeadGatewayLeaveAlthoughTheDetectorIsAwayFor12Minutes(t *testing.T) {
	long(t)
	inWorld(t, size{partitions: 1}, func(w *world) {
		all := w.startAll()
		p := all["ingest"]
		wire := newWire()
		dies := w.begin("ingest", "ingest-2", func(c *app.Config) {
			c.Kafka.Dialer, c.Redis.Dialer = wire.dial(c.Kafka.Dialer), wire.dial(c.Redis.Dialer)
		})
		dies.awaitReady()
		for user := schemas.UserID(31); user <= 35; user++ { // leased when the detector goes
			defer w.connect(dies.base, user, 1, "mobile").lose()
		}
		w.beats(p, 30)
		all["detector"].stop()
		time.Sleep(time.Second)
		for user := schemas.UserID(1); user <= 20; user++ {
			defer w.connect(p.base, user, 1, "mobile").lose()
		}
		for user := schemas.UserID(36); user <= 40; user++ {
			defer w.connect(dies.base, user, 1, "mobile").lose()
		}
		w.beats(p, 60)
		wire.sever()
		dies.over = true
		dies.cancel()
		w.beats(p, 660)
		at := now()
		w.start("detector", "detector")
		w.beats(p, 600)
		users := byUser(w.likeTheOracle())
		w.onlyOnline(users, 1, 20)
		for user := schemas.UserID(31); user <= 40; user++ {
			w.only(users, user, schemas.Online, schemas.Away, schemas.Offline)
			if got := users[user]; len(got) < 2 || got[1].At < at || got[1].At > at+2*minute {
				w.Errorf("user %d goes to %v, the detector is back at %s", user, changesOf(got), clock(at))
			}
		}
	})
}
