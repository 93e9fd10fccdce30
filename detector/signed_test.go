package detector

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// master is that of the tests; its other names are those of masters that are not in force.
var master, foreign = signing.Master{1}, signing.Master{2}

// gatewayKey signs as gateway gw-1 does.
func gatewayKey(t *testing.T, m signing.Master) *signing.Keys {
	t.Helper()
	key, err := m.GatewayKey("gw-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	return signing.OfGateway(key)
}

// of are beats of a gateway's frame.
func of(gateway schemas.GatewayID, sequence uint64, beats ...schemas.Beat) []byte {
	return schemas.AppendFrame(nil, schemas.FrameHead{Gateway: gateway, GatewayEpoch: start, Sequence: sequence}, beats)
}

func TestACommitSaysUnderWhichMastersTheDetectorTakesHeartbeats(t *testing.T) {
	t.Parallel()
	for _, masters := range [][]signing.Master{nil, {master}, {foreign, master}} {
		l := newLog(t, 0, 1)
		var want []string
		if masters != nil {
			l.keys = signing.Of(masters)
		}
		for _, m := range masters {
			want = append(want, m.Fingerprint())
		}
		l.restore(-1, "")
		if c, err := schemas.DecodeCheckpoint(l.p.Checkpoint()); err != nil || !slices.Equal(c.Masters, want) {
			t.Errorf("%v: %+v, %v", want, c, err)
		}
	}
}

func TestAFrameThatNoKeySignedWhichMayIsADeadLetterAndChangesNothing(t *testing.T) {
	control, gateway := signing.Of([]signing.Master{master}), gatewayKey(t, master)
	unsigned := func(frame []byte) []byte { return frame }
	under := func(k *signing.Keys, topic string, partition int32) func([]byte) []byte {
		return func(frame []byte) []byte { return k.Sign(frame, topic, partition, start) }
	}
	const topic = "presence.heartbeats"
	policy := schemas.DefaultPolicy()
	policy.OnlineTTL = 40 * time.Second
	here := schemas.Beat{User: 1, Device: 7, Kind: schemas.Web}
	bye := here
	bye.Bye = true
	for _, as := range []struct {
		name, code string
		sign       func([]byte) []byte
		control    bool // refuses changes only
	}{
		{"unsigned", "unsigned", unsigned, false},
		{"foreign master", "unknown_key", under(signing.Of([]signing.Master{foreign}), topic, 0), false},
		{"another topic", "wrong_mac", under(control, "eu.heartbeats", 0), false},
		{"another partition", "wrong_mac", under(control, topic, 1), false},
		{"copy", "wrong_time", func(frame []byte) []byte { return control.Sign(frame, topic, 0, start-11*60_000) }, false},
		{"key of a gateway", "forbidden", under(gateway, topic, 0), true},
	} {
		for name, frame := range map[string][]byte{
			"hide":      schemas.AppendVisibility(nil, 1, schemas.Nobody),
			"override":  schemas.AppendOverride(nil, 1, schemas.Override{State: schemas.SetAway}, schemas.Name{}),
			"last seen": schemas.AppendLastSeen(nil, 1, schemas.SeenCoarsely, schemas.Name{}),
			"denies":    schemas.AppendDenies(nil, 1, denies(t, []schemas.UserID{2}, nil), schemas.Name{}),
			"erasure":   schemas.AppendErasure(nil, 1, schemas.Name{}, start+1, start+1, false),
			"policy":    schemas.AppendPolicy(nil, policy),
			"tick":      schemas.AppendTick(nil),
			"forwarded": schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "gw-1", GatewayEpoch: start, Forwarded: true}, []schemas.Beat{bye}),
			"bye":       of("gw-1", 2, bye),
			"other":     of("gw-2", 1, here),
		} {
			l := newLog(t, 0, 1)
			l.keys = control
			l.restore(-1, "")
			l.write(start, gateway.Sign(of("gw-1", 1, here), topic, 0, start))
			if got := l.transitions(); len(got) != 1 || got[0].To != schemas.Online {
				t.Fatalf("the signed beat published %v", got)
			}
			code := as.code
			switch {
			case as.control && name == "bye":
				continue
			case as.control && name == "other":
				code = "wrong_mac"
			}
			l.write(start+100, as.sign(frame))
			if len(l.out.Rejected) != 1 || kafka.ErrorCode(l.out.Rejected[0].Reason) != code {
				t.Errorf("%s, %s: rejected %v, want %s", as.name, name, l.out.Rejected, code)
			}
			if len(l.out.Records)+len(l.out.Forwards) > 0 || l.p.machine.LogTime() != start {
				t.Errorf("%s, %s: published %v, and the log time is %s", as.name, name, l.out.Records, l.p.machine.LogTime())
			}
			if n := testutil.ToFloat64(l.p.config.Metrics.Refused); n != 1 || !strings.Contains(l.warnings.String(), "a frame is refused") {
				t.Errorf("%s, %s: %v frames are counted, and the log says %s", as.name, name, n, l.warnings.String())
			}
		}
	}
}

// Who may write heartbeats can copy a genuine frame. One by which others learned more shows nothing of users who have
// them learn less since, also after a restart.
func TestACopyOfAFrameShowsNothingThatTheUserHasHiddenSince(t *testing.T) {
	t.Parallel()
	for name, frames := range map[string]struct{ less, more []byte }{
		"visibility": {schemas.AppendVisibility(nil, 1, schemas.Nobody), schemas.AppendVisibility(nil, 1, schemas.Everyone)},
		"exact": {schemas.AppendLastSeen(nil, 1, schemas.SeenCoarsely, schemas.Name{}),
			schemas.AppendLastSeen(nil, 1, schemas.SeenExactly, schemas.Name{})},
		"coarse": {schemas.AppendLastSeen(nil, 1, schemas.SeenNever, schemas.Name{}),
			schemas.AppendLastSeen(nil, 1, schemas.SeenCoarsely, schemas.Name{})},
		"allow": {schemas.AppendDenies(nil, 1, denies(t, []schemas.UserID{2}, nil), schemas.Name{}),
			schemas.AppendDenies(nil, 1, denies(t, nil, []schemas.UserID{2}), schemas.Name{})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkCopies(t, frames.less, frames.more)
		})
	}
}

// denies is a change of whom user 1 denies.
func denies(t *testing.T, add, remove []schemas.UserID) schemas.Denies {
	return must.Get(schemas.NewDenies("", 1, add, remove))(t)
}

func checkCopies(t *testing.T, less, more []byte) {
	l := newLog(t, 0, 1)
	l.keys = signing.Of([]signing.Master{master})
	l.restore(-1, "")
	sign := func(frame []byte, at schemas.Millis) []byte { return l.keys.Sign(frame, "presence.heartbeats", 0, at) }
	shows := sign(more, start+200)
	l.write(start, sign(of("gw-1", 1, schemas.Beat{User: 1, Device: 7, Kind: schemas.Web}), start))
	for i, frame := range [][]byte{sign(less, start+100), shows, sign(less, start+300)} {
		if l.write(start+300, frame); len(l.transitions()) != 1 {
			t.Fatalf("change %d published %v, and the refused are %v", i, l.transitions(), l.out.Rejected)
		}
	}
	copied := func() {
		t.Helper()
		l.write(start+1000, shows)
		if len(l.out.Rejected) != 1 || kafka.ErrorCode(l.out.Rejected[0].Reason) != "copied" || len(l.transitions()) != 0 {
			t.Errorf("a copy published %v, and the refused are %v", l.transitions(), l.out.Rejected)
		}
	}
	copied()
	digest := l.p.Digest()
	for range 2 { // from the first snapshot and what follows it, and from one that the frames are in
		l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
		if l.p.Digest() != digest {
			t.Error("a restart comes to another state")
		}
		copied()
		l.p.snapshots.due = true
		l.write(start+2000, sign(schemas.AppendTick(nil), start+2000))
		digest = l.p.Digest()
	}
}

func TestAPartitionOfWhichAllFramesOfAMinuteAreRefusedRaisesAnAlarm(t *testing.T) {
	t.Parallel()
	l := newLog(t, 0, 1)
	l.keys = signing.Of([]signing.Master{master})
	l.restore(-1, "")
	var now schemas.Millis
	l.p.config.Now = func() time.Time { return now.Time() }
	tick := func(after, clock schemas.Millis) { // clock is how much the broker's is ahead of the writers'
		now += after
		l.write(start+now+clock, l.keys.Sign(schemas.AppendTick(nil), "presence.heartbeats", 0, start+now))
	}
	refusing := func(want float64) {
		t.Helper()
		if got := testutil.ToFloat64(l.p.config.Metrics.Refusing); got != want || strings.Contains(l.warnings.String(), "all frames of a minute") != (want > 0) {
			t.Errorf("after %d ms %v partitions refuse all, want %v, and the log says %s", now, got, want, l.warnings.String())
		}
	}
	now = 1000
	const off = 11 * 60_000
	tick(0, off)
	tick(59_999, off)
	refusing(0)
	tick(1, 0) // one counts
	tick(1, off)
	tick(59_999, off)
	refusing(0)
	tick(1, off)
	tick(1, off)
	refusing(1)
	l.warnings.Reset()
	tick(1, 0)
	refusing(0)
	for range 2 {
		tick(60_000, off)
	}
	refusing(1)
	l.warnings.Reset()
	l.p.Close()
	refusing(0)
}

func TestARestartRefusesTheFramesThatWereRefused(t *testing.T) {
	l := newLog(t, 0, 1)
	l.keys = signing.Of([]signing.Master{master})
	l.restore(-1, "")
	signed := func(frame []byte) []byte { return l.keys.Sign(frame, "presence.heartbeats", 0, start) }
	l.write(start, signed(beat(1, 0)))
	l.write(start+10, schemas.AppendVisibility(nil, 1, schemas.Nobody))
	l.write(start+20, beat(2, 0))
	at := l.p.Checkpoint()
	l.restore(l.p.Next(), at)
	l.write(start+30, signed(schemas.AppendVisibility(nil, 1, schemas.Nobody)))
	l.write(start+40, signed(beat(2, 0)))
	if got := l.transitions(); len(got) != 1 || got[0].User != 2 || got[0].From != schemas.Offline {
		t.Errorf("user 2, whose first beat was refused, is published as %v", got)
	}
	if l.p.machine.Users() != 2 {
		t.Errorf("%d users are known", l.p.machine.Users())
	}
}
