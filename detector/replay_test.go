package detector

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/detector/snapshot"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// replay handles the heartbeat again that has caused a transition.
func (l *log) replay(tr *schemas.Transition, logStart int64) (*Replayed, error) {
	l.t.Helper()
	o := Replay{Users: l.users, LogEpoch: tr.Version.LogEpoch(), Offset: tr.Version.Offset(), User: tr.User, SnapshotsFrom: -1, SnapshotsTo: -1}
	r, err := o.Run(context.Background(), stream.Assignment{Partition: l.partition, Partitions: l.partitions, LogStart: logStart}, l.read)
	if err != nil && !errors.Is(err, ErrNoSnapshot) {
		l.t.Fatal(err)
	}
	return r, err
}

// changes are all that was published.
func (l *log) changes() (all []*schemas.Transition) {
	for _, r := range l.published {
		all = append(all, must.Get(schemas.DecodeTransition(r.Value))(l.t))
	}
	return all
}

// eventful is a log with changes of every cause but erasures, and many snapshots.
func eventful(t *testing.T) *log {
	t.Helper()
	l := newLog(t, 0, 1)
	l.users, l.cadence = named, Cadence{Least: 10 * time.Second, Most: 20 * time.Second}
	l.settings.AnnounceDevices, l.settings.IdleAfter, l.settings.MaxDevices = true, 2*time.Minute, 2
	l.restore(-1, "")
	var names []schemas.Name
	for _, text := range []string{"silent", "idle", "leaves", "hides", "held", "drained", "many", "quick"} {
		names = append(names, schemas.Name{Tenant: "acme", Text: text})
	}
	names[7].Tenant = "quick"
	id := func(n schemas.Name) schemas.UserID { return named.ID(n.Tenant, n.Text) }
	frame := func(head schemas.FrameHead, n schemas.Name, beats ...schemas.Beat) []byte {
		for i := range beats {
			beats[i].User, beats[i].Kind = id(n), schemas.Kinds[int(beats[i].Device)%3]
		}
		return schemas.AppendNamedRow(schemas.AppendFrame(nil, head, beats), 0, n)
	}
	own := func(gateway schemas.GatewayID, epoch schemas.Millis) schemas.FrameHead {
		return schemas.FrameHead{Gateway: gateway, GatewayEpoch: start + epoch}
	}
	l.write(start, schemas.AppendTenantPolicy(nil, schemas.TenantPolicy{Tenant: "quick", Policy: quick()}))
	for at := start; at < start+600_000; at += 500 {
		l.write(at, schemas.AppendTick(nil))
		switch at - start {
		case 1000:
			for _, n := range []int{0, 2, 3, 7} {
				l.write(at, frame(schemas.FrameHead{}, names[n], schemas.Beat{Device: 1}))
			}
			l.write(at, frame(own("lost", 0), names[4], schemas.Beat{Device: 1}))
			l.write(at, frame(own("drains", 0), names[5], schemas.Beat{Device: 1}))
		case 5000:
			l.write(at, frame(schemas.FrameHead{}, names[2], schemas.Beat{Device: 1, Bye: true}))
			l.write(at, schemas.AppendVisibility(nil, id(names[3]), schemas.Nobody))
			l.write(at, schemas.AppendFrame(nil, own("lost", 4000), nil))
			head := own("drains", 0)
			head.Draining = true
			l.write(at, schemas.AppendFrame(nil, head, nil))
		case 8000:
			l.write(at, schemas.AppendVisibility(nil, id(names[3]), schemas.Everyone))
			l.write(at, schemas.AppendOverride(nil, id(names[3]), schemas.Override{State: schemas.DoNotDisturb, Until: at + 1000}, schemas.Name{}))
			l.write(at, schemas.AppendLastSeen(nil, id(names[3]), schemas.SeenCoarsely, schemas.Name{}))
			l.write(at, schemas.AppendDenies(nil, id(names[3]), denies(t, []schemas.UserID{2}, nil), schemas.Name{}))
		case 200_000, 201_000, 202_000:
			l.write(at, frame(schemas.FrameHead{}, names[6], schemas.Beat{Device: schemas.DeviceID(1 + (at-start-200_000)/1000)}))
		}
		if (at-start)%20_000 == 0 && at < start+300_000 {
			l.write(at, frame(schemas.FrameHead{}, names[1], schemas.Beat{Device: 1, Idle: max(0, at-start-40_000)}))
		}
	}
	return l
}

func TestAReplayFromASnapshotGivesEveryPublishedChangeAgain(t *testing.T) {
	t.Parallel()
	l := eventful(t)
	causes := map[schemas.Cause]bool{}
	for _, tr := range l.changes() {
		causes[tr.Cause] = true
		r, err := l.replay(tr, 0)
		if err != nil {
			t.Fatalf("%+v: %v", tr, err)
		}
		again := false
		for i := range r.Transitions {
			again = again || r.Transitions[i] == *tr
		}
		first, last := r.Transitions[0], r.Transitions[len(r.Transitions)-1]
		if !again || r.Before.State != schemas.StateWord(first.From) || r.After.State != schemas.StateWord(last.To) || len(r.Refused) != 0 {
			t.Errorf("%+v is replayed as %+v", tr, r)
		}
		switch d := r.Before.Devices; tr.Cause {
		case schemas.Silent:
			if tr.From == schemas.Online && (len(d) != 1 || d[0].Until != tr.At || d[0].Device != tr.Device || r.Before.Next != tr.At) ||
				tr.From == schemas.Away && (len(d) != 0 || r.Before.Next != tr.At) {
				t.Errorf("before %+v the user is %+v", tr, r.Before)
			}
		case schemas.GatewayLost, schemas.GatewayDrained:
			if tr.From == schemas.Online && (len(d) != 1 || !d[0].Lost || !d[0].Held || d[0].Gateway == "" || d[0].Until >= tr.At) {
				t.Errorf("before %+v the user is %+v", tr, r.Before)
			}
		case schemas.VisibilityChange:
			if r.Before.Visibility == r.After.Visibility || !r.Before.Hid && !r.After.Hid {
				t.Errorf("%+v: %+v, then %+v", tr, r.Before, r.After)
			}
		}
	}
	for _, cause := range schemas.Causes {
		if !causes[cause] && cause != schemas.Erased && cause != schemas.ActiveAgain {
			t.Errorf("nothing was published with the cause %s", schemas.CauseWord(cause))
		}
	}
}

func TestAReplayThatCannotUseASnapshotTriesTheOneBeforeItAndSaysSo(t *testing.T) {
	t.Parallel()
	l := eventful(t)
	all := l.changes()
	last := all[len(all)-1]
	whole, err := l.replay(last, 0)
	if err != nil || whole.From > last.Version.Offset() || whole.From < last.Version.Offset()-200 {
		t.Fatalf("%+v, %v", whole, err)
	}
	if _, err := l.replay(last, whole.From+1); !errors.Is(err, ErrNoSnapshot) {
		t.Errorf("without the heartbeats after a snapshot: %v", err)
	}
	other := *last
	other.Version = schemas.NewVersion(2, last.Version.Offset(), 0)
	if r, err := l.replay(&other, 0); !errors.Is(err, ErrNoSnapshot) || !strings.Contains(r.Refused[0], "log epoch is 1") {
		t.Errorf("of another log: %+v, %v", r, err)
	}
	for i, r := range l.snapshots {
		if name := (schemas.SnapshotName{}); string(r.Key) == manifestKey {
			if walkName(&snapshot.Codec{Reading: true, Bytes: r.Value}, &name); name.Next == whole.From {
				l.snapshots[i-1].Value[0] ^= 1
			}
		}
	}
	r, err := l.replay(last, 0)
	if err != nil || len(r.Refused) != 1 || !strings.Contains(r.Refused[0], "digest") || r.From >= whole.From || len(r.Transitions) != 1 || r.Transitions[0] != *last {
		t.Errorf("%+v, %v", r, err)
	}
	l.snapshots = nil
	if _, err := l.replay(last, 0); !errors.Is(err, ErrNoSnapshot) {
		t.Errorf("without snapshots: %v", err)
	}
}
