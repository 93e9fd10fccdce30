package detector

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
)

// leases is a partition, and what is heard of gateways in another topic.
type leases struct {
	*testing.T
	gateways *Gateways
	machine  *liveness.Machine
	at       schemas.Millis // of both logs
	offset   int64
	said     []string
}

func newLeases(t *testing.T) *leases {
	l := &leases{T: t, gateways: NewGateways(nil, "presence.gateways"), at: 1_763_700_000_000,
		machine: liveness.New(schemas.DefaultPolicy(), 0, 1, 1, 0)}
	return l
}

func (l *leases) take(value []byte) {
	l.Helper()
	if err := l.gateways.Take(&schemas.Record{Value: value, Time: l.at}); err != nil {
		l.Error(err)
	}
}

// pass lets seconds go by: both logs tick, and the owner looks.
func (l *leases) pass(seconds int) {
	for range seconds {
		l.at += 1000
		l.take(schemas.AppendTick(nil))
		l.write(schemas.AppendTick(nil))
		l.look()
	}
}

func (l *leases) look() {
	l.gateways.lease(l.machine, l.at.Time(), func(head schemas.FrameHead) {
		l.said = append(l.said, fmt.Sprint(head.Leased, head.Draining, int64(head.LeaseEnded)))
		l.write(schemas.AppendFrame(nil, head, nil))
	})
}

func (l *leases) write(value []byte) {
	var f schemas.Frame
	if err := f.Decode(value); err != nil {
		l.Fatal(err)
	}
	var out liveness.Output
	l.machine.Apply(l.offset, l.at, &f, &out)
	l.offset++
}

func (l *leases) wants(want string) {
	l.Helper()
	if got := strings.Join(l.said, "; "); got != want {
		l.Errorf("the partition was told %q, want %q", got, want)
	}
	l.said = nil
}

func TestTheOwnerTellsAPartitionWhatChangesInTheLeasesOfItsGateways(t *testing.T) {
	t.Parallel()
	l := newLeases(t)
	epoch := l.at - 1_000_000
	hears := func(draining bool) {
		l.take(schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "gw", GatewayEpoch: epoch, Draining: draining}, nil))
	}
	hears(false)
	l.pass(1)
	l.wants("") // no device of it is here
	l.write(schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "gw", GatewayEpoch: epoch},
		[]schemas.Beat{{User: 1, Device: 7, Connection: 1}}))
	for range 30 {
		hears(false)
		l.pass(2)
	}
	l.wants("true false 0")
	l.pass(6)
	l.wants("false false 4000")
	hears(false)
	l.pass(2)
	epoch++
	hears(false)
	l.pass(2)
	l.wants("true false 0; false false 4000; true false 0")
	hears(true)
	l.pass(3)
	l.wants("true true 0")
	l.take(schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "gw", GatewayEpoch: epoch - 1}, nil)) // one that was late
	l.pass(3)
	l.wants("false false 4000")
}

// opens writes the row of a connection of user 1, and keeps says that its gateway is heard, and the user stays, for ten
// minutes.
func (l *leases) opens(alive schemas.FrameHead) {
	l.write(schemas.AppendFrame(nil, alive, []schemas.Beat{{User: 1, Device: 7, Kind: schemas.Web, Connection: 1}}))
}

func (l *leases) keeps(what any, alive schemas.FrameHead) {
	l.Helper()
	for range 600 {
		l.take(schemas.AppendFrame(nil, alive, nil))
		l.pass(1)
	}
	if v := l.machine.View(1); v.State != "online" {
		l.Errorf("%v: the user is %s; the partition was told %q", what, v.State, strings.Join(l.said, "; "))
	}
}

// unseen passes seconds in which the owner does not look, or what it writes is lost.
func (l *leases) unseen(seconds int, alive schemas.FrameHead) {
	for range seconds {
		l.at += 1000
		l.take(schemas.AppendFrame(nil, alive, nil))
		l.write(schemas.AppendTick(nil))
	}
}

// Also where the partition has forgotten all frames of the gateway, where the gap is the longest that the gateway takes
// for none, and where the first lease after it is lost on the way.
func TestAProcessThatIsHeardAgainBeforeItsDevicesLeaveGetsALease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		silence, window time.Duration // seconds
		gap, unseen     int           // seconds
	}{{10, 600, 20, 0}, {10, 600, 200, 0}, {10, 30, 0, 39}, {10, 30, 22, 11}, {10, 0, 5, 3}, {10, 10, 12, 6}, {1, 10, 5, 0}, {4, 2, 4, 0},
		{600, 0, 450, 0}, {60, 0, 45, 0}, {1, 600, 300, 0}} {
		l := newLeases(t)
		policy := schemas.DefaultPolicy()
		policy.GatewaySilence, policy.ReconnectWindow = c.silence*time.Second, c.window*time.Second
		l.write(schemas.AppendPolicy(nil, policy))
		alive := schemas.FrameHead{Gateway: "gw", GatewayEpoch: l.at}
		l.opens(alive)
		for range 3 {
			l.pass(c.gap)
			l.unseen(c.unseen, alive)
			l.keeps(c, alive)
		}
	}
}

func TestAGatewayWithTwoLostProcessesIsLookedAtOnce(t *testing.T) {
	t.Parallel()
	l, times := newLeases(t), 0
	for range 3 {
		alive := schemas.FrameHead{Gateway: "gw", GatewayEpoch: l.at}
		l.opens(alive)
		l.unseen(12, alive)
	}
	for range l.machine.Gateways {
		times++
	}
	if times != 1 {
		t.Errorf("the gateway comes %d times", times)
	}
}

func TestNoLostGatewayComesBackBecauseTheTopicStandsStill(t *testing.T) {
	t.Parallel()
	l := newLeases(t)
	l.opens(schemas.FrameHead{Gateway: "gw", GatewayEpoch: l.at})
	for i := range 400 {
		l.at += 1000
		l.write(schemas.AppendTick(nil))
		if i > 12 {
			l.look()
		}
	}
	if v := l.machine.View(1); v.State == "online" {
		t.Errorf("the user is online after 400 s; the partition was told %q", l.said)
	}
}

func TestNoLeaseEndsWhileTheTopicOfGatewaysStandsStill(t *testing.T) {
	t.Parallel()
	l := newLeases(t)
	alive := schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "gw", GatewayEpoch: l.at}, nil)
	l.take(alive)
	l.write(alive)
	l.pass(2)
	l.wants("true false 0")
	l.at += 3_600_000
	l.write(schemas.AppendTick(nil))
	l.gateways.lease(l.machine, l.at.Time(), func(head schemas.FrameHead) { t.Errorf("the partition is told %+v", head) })
	l.pass(1) // the gap counts for a second, and is over by a tick
	l.take(alive)
	l.pass(3)
	l.wants("")
}

func TestWhileTheTopicOfGatewaysStandsStillNewOnesGetALeaseToo(t *testing.T) {
	t.Parallel()
	l := newLeases(t)
	l.pass(6)
	l.write(schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "gw", GatewayEpoch: l.at}, nil))
	for range 100 {
		l.at += 1000
		l.write(schemas.AppendTick(nil))
		l.look()
	}
	l.pass(1)
	l.wants("true false 0; false false 6000")
}

func TestLeasesDoNotFlapUnderAShortSilenceNorEndEarlyUnderALongOne(t *testing.T) {
	t.Parallel()
	for silence, c := range map[time.Duration]struct {
		pass int
		want string
	}{time.Second: {5, "false false 3000"}, 10 * time.Minute: {200, "false false 30000"}} {
		l := newLeases(t)
		policy := schemas.DefaultPolicy()
		policy.GatewaySilence = silence
		l.write(schemas.AppendPolicy(nil, policy))
		alive := schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "gw", GatewayEpoch: l.at}, nil)
		l.write(alive)
		for range 10 {
			l.take(alive)
			l.pass(2)
		}
		l.wants("true false 0")
		l.pass(c.pass)
		l.wants(c.want)
	}
}

func TestAReaderThatHasJustBegunEndsNoLeaseBeforeItKnows(t *testing.T) {
	t.Parallel()
	l := newLeases(t)
	l.write(schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "gw", GatewayEpoch: l.at, Leased: true}, nil))
	l.pass(4)
	l.wants("")
	l.pass(2)
	l.wants("false false 4000")
}

func TestAPartitionThatHasNotReadItsLeasesYetDoesNotWriteThemAgain(t *testing.T) {
	t.Parallel()
	l := freshLog(t, 1, 2)
	now := start
	l.p.config.Now = func() time.Time { return now.Time() }
	l.p.config.Gateways = NewGateways(nil, "presence.gateways")
	of := func(more schemas.FrameHead) []byte {
		more.Gateway, more.GatewayEpoch = "gw", start
		return schemas.AppendFrame(nil, more, nil)
	}
	l.write(now, of(schemas.FrameHead{Sequence: 1}))
	tick := schemas.AppendTickBehind(nil)
	hears := func(after schemas.Millis, leases int) {
		t.Helper()
		now += after
		for _, value := range [][]byte{schemas.AppendTick(nil), of(schemas.FrameHead{})} {
			if err := l.p.config.Gateways.Take(&schemas.Record{Value: value, Time: now}); err != nil {
				t.Fatal(err)
			}
		}
		l.write(now, tick)
		l.out.Hints = slices.DeleteFunc(l.out.Hints, func(o schemas.Outgoing) bool { return o.Topic != schemas.Heartbeats })
		if len(l.out.Hints) != leases {
			t.Errorf("after %d ms more, %d changes are written, want %d", after, len(l.out.Hints), leases)
		}
	}
	hears(1000, 1)
	hears(2000, 0) // the log has not got there
	hears(7000, 0)
	hears(1000, 1) // it may be lost
	tick = schemas.AppendTick(nil)
	hears(2000, 0)
	hears(1000, 1)
	l.write(now, of(schemas.FrameHead{Leased: true}))
	hears(2000, 0)
	l.write(now, of(schemas.FrameHead{LeaseEnded: 1}))
	hears(2000, 1)
}
