package live_test

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// comparing has all watched users compared once a second.
func comparing(c *fanout.Config) { c.CompareInterval = time.Second }

func TestAChangeThatWasLostOnAnOpenConnectionIsFoundAndSent(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t), comparing, func(c *fanout.Config) { c.LostAfter = 10 * time.Millisecond })
	anna, ben := &person{id: 1}, &person{id: 2}
	g.happen(anna.becomes(schemas.Online), ben.becomes(schemas.Online))
	p := g.dial()
	p.watch(1, 2, 3)
	g.view.apply(anna.becomes(schemas.Away)) // no message of it comes
	sameJSON(t, p.expect(watch.Resync).Users, []schemas.Presence{g.view.one(t, 1)})
	if n := valueOf(g.metrics.Lost); n != 1 {
		t.Errorf("%v changes counted as lost", n)
	}
	// The view has the change after the channel: a comparison between the two would find it lost in 10 ms.
	offline := anna.becomes(schemas.Offline)
	g.publish(offline)
	g.view.apply(offline)
	sameJSON(t, p.expect(watch.Change).User, g.view.one(t, 1))
	if lost := valueOf(g.metrics.BusLost); lost != 0 {
		t.Errorf("the connection was lost %v times", lost)
	}
}

func TestASubscribeFindsAChangeThatOtherViewersHaveLost(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t), func(c *fanout.Config) { c.LostAfter = 10 * time.Millisecond })
	anna := &person{id: 1}
	g.happen(anna.becomes(schemas.Online))
	p := g.dial()
	p.watch(1)
	g.view.apply(anna.becomes(schemas.Away)) // no message of it comes
	q := g.dial()
	sameJSON(t, q.watch(1), []schemas.Presence{g.view.one(t, 1)})
	sameJSON(t, p.expect(watch.Resync).Users, []schemas.Presence{g.view.one(t, 1)})
	g.happen(anna.becomes(schemas.Offline))
	p.expect(watch.Change)
	q.expect(watch.Change) // and no resync: it knew
}

func TestAChangeThatIsOnItsWayIsSentOnlyByTheChannel(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t), comparing, func(c *fanout.Config) { c.LostAfter = time.Hour })
	anna := &person{id: 1}
	g.happen(anna.becomes(schemas.Online))
	p := g.dial()
	p.watch(1)
	first, second := anna.becomes(schemas.Away), anna.becomes(schemas.Offline)
	g.view.apply(first, second)
	compared := valueOf(g.metrics.Compared)
	eventually(t, "she is compared twice", func() bool { return valueOf(g.metrics.Compared) >= compared+2 })
	g.publish(first, second)
	for _, want := range []*schemas.Transition{first, second} {
		if u := p.expect(watch.Change).User; u.Version != want.Version.String() {
			t.Errorf("version %s, not %s", u.Version, want.Version)
		}
	}
	if n := valueOf(g.metrics.Lost); n != 0 {
		t.Errorf("%v changes counted as lost", n)
	}
}
