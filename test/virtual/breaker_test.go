package virtual

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/schemas"
)

// crowds are the users of several gateways.
type crowds struct {
	w     *world
	p     *process
	names []string
}

const perGateway = 150

func newCrowds(w *world, p *process) *crowds {
	return &crowds{w, p, []string{"gw-a", "gw-b", "gw-c", "gw-d"}}
}

func (c *crowds) size() int { return perGateway * len(c.names) }

// beatUntil lets all users beat every five seconds.
func (c *crowds) beatUntil(end schemas.Millis) {
	for at := now() + second - now()%second; at < end; at += 5 * second {
		c.w.sleepTo(at)
		for g, name := range c.names {
			var rows []row
			for user := range schemas.UserID(perGateway) {
				rows = append(rows, row{User: schemas.UserID(g)*1000 + user + 1, Device: 1, Kind: "mobile"})
			}
			c.w.post(c.p.base, gateway{name, began}, rows...)
		}
	}
}

// cutOff lets Kafka refuse what says that the gateways are there, or all that is written to the heartbeats.
func (c *crowds) cutOff(all bool) *kfake.FaultHandle {
	topic := schemas.Gateways
	if all {
		topic = schemas.Heartbeats
	}
	return c.w.kafka.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic.Name(schemas.DefaultPrefix),
		Err: kerr.NotEnoughReplicas, Count: -1, When: func(r kmsg.Request) bool { return all || !onlyTicks(r) }})
}

// open checks in how many partitions the breaker is open.
func (c *crowds) open(want string) {
	c.w.Helper()
	c.w.metricIs(want, "stillhere_detector_breaker_open_partitions", c.p)
}

// changed checks how many changes were published.
func (c *crowds) changed(want int, why string) {
	c.w.Helper()
	c.w.tap.catchUp()
	n := 0
	for _, of := range c.w.tap.committed() {
		n += len(of)
	}
	if n != want {
		c.w.Errorf("%s: %d changes, must be %d", why, n, want)
	}
}

// All gateways are cut off from Kafka while the detector is not, twice: for six minutes, in
// which nobody may go, and for longer than the breaker holds, after which all go by their limits.
func TestGatewaysThatAreCutOffForMinutesTakeNobodyOfflineUntilTheBreakerGivesUp(t *testing.T) {
	long(t)
	inWorld(t, size{partitions: 2, tick: time.Second}, func(w *world) {
		c := newCrowds(w, w.start("all", "one"))
		c.beatUntil(now() + 2*minute)
		cut := c.cutOff(false)
		time.Sleep(time.Minute)
		cut.Remove()
		c.open("2")
		cut = c.cutOff(false)
		time.Sleep(5 * time.Minute)
		cut.Remove()
		c.open("2")
		c.beatUntil(now() + 2*minute)
		c.open("0")
		c.changed(c.size(), "all stayed")
		cut = c.cutOff(false)
		time.Sleep(30 * time.Minute)
		cut.Remove()
		c.open("0") // it gives up after ten minutes
		c.changed(3*c.size(), "all have gone away and offline")
		users := byUser(w.likeTheOracle())
		for id := range users {
			w.only(users, id, schemas.Online, schemas.Away, schemas.Offline)
		}
	})
}

// The gateways are cut off 6 s before Kafka, for longer than the breaker holds, and all are back at once. Then the
// brokers' clock steps ahead while the gateways are cut off.
func TestAnOutageOfKafkaLongerThanTheBreakerHoldsIsNoSilence(t *testing.T) {
	long(t)
	inWorld(t, size{partitions: 2, tick: time.Second, unsigned: true}, func(w *world) { // signed frames may not be an hour off
		all := w.startAll() // in one process, frames that are refused hold up the ticks
		c := newCrowds(w, all["ingest"])
		c.beatUntil(now() + minute)
		for _, outage := range []time.Duration{15 * time.Minute, time.Hour} {
			cut := c.cutOff(false)
			time.Sleep(6 * time.Second)
			all := c.cutOff(true)
			time.Sleep(outage)
			all.Remove()
			cut.Remove()
			c.beatUntil(now() + 2*minute)
			c.changed(c.size(), outage.String()+" without Kafka")
		}
		cut := c.cutOff(false)
		time.Sleep(6 * time.Second)
		w.kafka.SetClock(time.Hour)
		time.Sleep(6 * time.Second)
		cut.Remove()
		c.beatUntil(now() + 2*minute)
		c.changed(c.size(), "a clock an hour ahead")
		w.likeTheOracle()
	})
}
