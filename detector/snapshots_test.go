package detector

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/stillhere/stillhere/detector/snapshot"
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// crowded is a log with many users, whose snapshot has several chunks.
func crowded(t *testing.T) *log {
	t.Helper()
	l := newLog(t, 0, 1)
	l.cadence = Cadence{Least: time.Second, Most: time.Second, Step: 6000}
	l.restore(-1, "")
	for i := range 30 {
		var beats []schemas.Beat
		for user := range schemas.UserID(1000) {
			beats = append(beats, schemas.Beat{User: 1 + user + schemas.UserID(i)*1000, Device: 7, Kind: schemas.Web})
		}
		l.write(start+schemas.Millis(i), schemas.AppendFrame(nil, schemas.FrameHead{}, beats))
	}
	for i := range 20 {
		l.write(start+2000+schemas.Millis(i), schemas.AppendTick(nil))
	}
	if l.p.snapshots.named.Chunks < 3 {
		t.Fatalf("the snapshot is %+v", l.p.snapshots.named)
	}
	return l
}

// chunks are those of the newest snapshot, without the manifest after them.
func (l *log) chunks() []schemas.Record {
	end := len(l.snapshots) - 1
	return l.snapshots[end-l.p.snapshots.named.Chunks : end]
}

func TestASnapshotThatIsNotWholeIsRefusedAndSaysSo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(l *log)
		says   string
	}{
		"gone":      {func(l *log) { l.snapshots = nil }, "0 of its"},
		"truncated": {func(l *log) { l.snapshots = l.snapshots[:len(l.snapshots)-2] }, "chunks are there"},
		"corrupt":   {func(l *log) { l.chunks()[1].Value[1000] ^= 1 }, "digest"},
		"mixed": {func(l *log) {
			all := l.chunks()
			all[0].Key, all[1].Key = all[1].Key, all[0].Key
		}, "digest"},
		"of another partition": {func(l *log) { l.partition, l.partitions = 1, 2 }, "of another program or partition"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := crowded(t)
			c.change(l)
			l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
			if text := l.warnings.String(); !strings.Contains(text, "ALARM: the snapshot that the commit names cannot be used") || !strings.Contains(text, c.says) {
				t.Errorf("it says %s", text)
			}
		})
	}
}

func TestASnapshotWithOtherBytesIsNoState(t *testing.T) {
	t.Parallel()
	l := crowded(t)
	var state []byte
	for _, r := range l.chunks() {
		state = append(state, r.Value...)
	}
	load := func(state []byte) error {
		p := NewPartition(l.p.config, 0)
		p.router = l.p.router
		p.begin()
		return p.load(state)
	}
	if err := load(state); err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string][]byte{
		"cut off": state[:len(state)-1], "with more": append(slices.Clone(state), 0), "empty": nil,
		"a user twice": append(slices.Clone(state[:len(state)/2]), state[len(state)/3:]...),
	} {
		if err := load(other); !errors.Is(err, errState) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A restart reads the heartbeats since the snapshot, and statuses at no time.
func TestARestartReadsTheSnapshotAndWhatFollowsIt(t *testing.T) {
	t.Parallel()
	l := crowded(t)
	named, digest := l.p.snapshots.named, l.p.Digest()
	read := func(ctx context.Context, topic schemas.Topic, from, to int64, each func(*schemas.Record) error) error {
		switch {
		case topic == schemas.Heartbeats && from < named.Next:
			t.Errorf("heartbeats are read from %d, the snapshot is of %d", from, named.Next)
		case topic != schemas.Heartbeats && topic != schemas.Snapshots:
			t.Errorf("%s is read", topic)
		}
		return l.read(ctx, topic, from, to, each)
	}
	p := NewPartition(l.p.config, 0)
	at := stream.Assignment{Partitions: 1, Offset: int64(len(l.heartbeats)), Metadata: l.p.Checkpoint(), LogEnd: int64(len(l.heartbeats)), TopicID: l.topicID}
	if err := p.Restore(context.Background(), at, read); err != nil {
		t.Fatal(err)
	}
	if p.Digest() != digest {
		t.Error("it comes to another state")
	}
}

func TestAPartitionThatIsStoppedIsRestoredWithoutAHeartbeat(t *testing.T) {
	t.Parallel()
	l := crowded(t)
	l.p.config.Snapshots.Step = 1
	l.write(start+2000+9100, schemas.AppendTick(nil)) // begins a snapshot that is not complete
	l.write(start+2000+9200, beat(1, 0))
	if l.p.snapshots.capture == nil {
		t.Fatal("no snapshot is under way")
	}
	digest, next := l.p.Digest(), int64(len(l.heartbeats))
	for more := true; more; {
		var out stream.Outbox
		more = l.p.Stop(&out)
		for _, o := range out.Records {
			l.snapshots = append(l.snapshots, schemas.Record{Offset: int64(len(l.snapshots)), Key: o.Key, Value: o.Value})
		}
	}
	l.reads = 0
	l.restore(next, l.p.Checkpoint())
	if l.reads > len(l.snapshots) || l.p.snapshots.named.Next != next || l.p.Digest() != digest {
		t.Errorf("%d records are read, %d are of snapshots; the snapshot is %+v", l.reads, len(l.snapshots), l.p.snapshots.named)
	}
	if out := (stream.Outbox{}); l.p.Stop(&out) || len(out.Records) > 0 {
		t.Error("it is stopped at once, and writes the snapshot again")
	}
}

// What such a restore has found goes out with the next record, and nothing else would find it again.
func TestAPartitionThatWasRestoredFromStatusesAndHandledNothingWritesNoSnapshotWhenItStops(t *testing.T) {
	t.Parallel()
	l := crowded(t)
	l.snapshots = nil
	l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
	if out := (stream.Outbox{}); l.p.Stop(&out) || len(out.Records) > 0 {
		t.Errorf("it writes %d records", len(out.Records))
	}
}

func FuzzNoBytesButASnapshotAreAState(f *testing.F) {
	l := newLog(&testing.T{}, 0, 1)
	l.restore(-1, "")
	l.write(start, beat(1, 0))
	l.write(start+1, schemas.AppendTick(nil))
	for _, r := range l.snapshots {
		f.Add(r.Value)
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		p := NewPartition(l.p.config, 0)
		p.router = l.p.router
		p.begin()
		if p.load(state) != nil {
			return
		}
		digest := p.Digest()
		var walked snapshot.Codec
		p.head(&walked)
		p.machine.Walk(&walked)
		l := newLog(t, 0, 1)
		l.p = p
		l.heartbeats = make([]schemas.Record, max(0, min(p.next, 1<<20)))
		l.write(max(p.LogTime(), start), bytes.Clone(beat(1, 0)))
		for _, bytes := range [][]byte{state, walked.Bytes} {
			again := NewPartition(p.config, 0)
			again.router = p.router
			again.begin()
			if err := again.load(bytes); err != nil || again.Digest() != digest {
				t.Errorf("read again it is another state: %v", err)
			}
		}
	})
}

func TestMetricsSayHowOldAndLargeASnapshotIsAndHowAPartitionWasRestored(t *testing.T) {
	t.Parallel()
	l := crowded(t)
	m := l.p.config.Metrics
	l.write(start+2000+7000, schemas.AppendTick(nil)) // writes a snapshot
	l.write(start+2000+7100, schemas.AppendTick(nil))
	size := 0
	for _, r := range l.chunks() {
		size += len(r.Value)
	}
	if got := testutil.ToFloat64(m.SnapshotAge.WithLabelValues("0")); got != 0.1 {
		t.Errorf("it is %v s old", got)
	}
	if got := testutil.ToFloat64(m.SnapshotBytes.WithLabelValues("0")); got != float64(size) {
		t.Errorf("it has %v bytes, not %d", got, size)
	}
	if got := testutil.ToFloat64(m.Restores.WithLabelValues("new")); got != 1 {
		t.Errorf("%v restores of nothing", got)
	}
	if written, paused := observed(t, m.SnapshotTime), observed(t, m.SnapshotPause); written != 3 || paused < written {
		t.Errorf("%d snapshots were written, %d records waited", written, paused)
	}
	l.p.Close()
	if n := testutil.CollectAndCount(m.SnapshotAge) + testutil.CollectAndCount(m.SnapshotBytes); n != 0 {
		t.Errorf("%d series are left of a partition that is gone", n)
	}
	next, metadata := int64(len(l.heartbeats)), l.p.Checkpoint()
	l.restore(next, metadata)
	l.write(start+2000+7300, schemas.AppendTick(nil))
	if got := testutil.ToFloat64(l.p.config.Metrics.SnapshotAge.WithLabelValues("0")); got != 0.3 {
		t.Errorf("after a restart it is %v s old", got)
	}
	if got := testutil.ToFloat64(l.p.config.Metrics.Restores.WithLabelValues("snapshot")); got != 1 {
		t.Errorf("%v restores from a snapshot", got)
	}
	l.snapshots = nil
	l.restore(next, metadata)
	if got := testutil.ToFloat64(l.p.config.Metrics.Restores.WithLabelValues("lossy")); got != 1 {
		t.Errorf("%v restores from statuses", got)
	}
	lossyAt := func() schemas.Millis { return must.Get(schemas.DecodeCheckpoint(l.p.Checkpoint()))(t).LossyAt }
	want := must.Get(schemas.DecodeCheckpoint(metadata))(t).LogTime
	if at := lossyAt(); at != want {
		t.Errorf("the commit says that the state was lost at %v, want %v", at, want)
	}
	for i := range schemas.Millis(20) {
		l.write(start+20_000+1000*i, schemas.AppendTick(nil))
	}
	l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
	if at := lossyAt(); at != want || testutil.ToFloat64(l.p.config.Metrics.Restores.WithLabelValues("snapshot")) != 1 {
		t.Errorf("an exact restart after it says %v", at)
	}
}

// observed is how many values a histogram has.
func observed(t *testing.T, h prometheus.Histogram) uint64 {
	t.Helper()
	var m dto.Metric
	if err := h.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetHistogram().GetSampleCount()
}

// Frames that counted may not count under other masters, and a user who came by one would stay for ever.
func TestARestartUnderOtherMastersKeepsWhoIsPresentUntilTheyLeave(t *testing.T) {
	l := freshLog(t, 0, 1)
	l.write(start, beat(1, 0))
	committed, metadata := l.p.Next(), l.p.Checkpoint()
	l.keys = signing.Of([]signing.Master{master})
	l.restore(committed, metadata)
	if !strings.Contains(l.warnings.String(), "other masters") {
		t.Errorf("nothing is said of the masters: %s", l.warnings.String())
	}
	left := 0
	for at := start + 1000; at < start+600_000; at += 1000 {
		l.write(at, l.keys.Sign(schemas.AppendTick(nil), "presence.heartbeats", 0, at))
		for _, tr := range l.transitions() {
			if tr.To == schemas.Offline {
				left++
			}
		}
	}
	if left != 1 {
		t.Errorf("the user goes offline %d times", left)
	}
}

// The user leaves, comes back and leaves in one millisecond, and between is a snapshot.
func TestANameThatIsForgottenTwiceAtOneInstantIsTheSameStateAfterARestart(t *testing.T) {
	l := namedLog(t, 0, 1)
	l.settings.ByeDebounce = 0
	l.restore(-1, "")
	name := nameIn(0, 1, "acme")
	bye := schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: named.ID(name.Tenant, name.Text), Device: 7, Bye: true}})
	l.write(start, schemas.AppendTick(nil))
	for _, value := range [][]byte{namedBeat(name, 7), bye, namedBeat(name, 7)} {
		l.write(start+100, value)
	}
	undisturbed := l.p
	for more := true; more; {
		var out stream.Outbox
		more = l.p.Stop(&out)
		for _, o := range out.Records {
			l.snapshots = append(l.snapshots, schemas.Record{Offset: int64(len(l.snapshots)), Key: o.Key, Value: o.Value})
		}
	}
	l.restore(l.p.Next(), l.p.Checkpoint())
	l.write(start+100, bye)
	if err := undisturbed.Handle(&l.heartbeats[len(l.heartbeats)-1], &stream.Outbox{}); err != nil {
		t.Fatal(err)
	}
	if undisturbed.Digest() != l.p.Digest() {
		t.Error("the digests differ")
	}
}
