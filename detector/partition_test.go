package detector

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

const start = schemas.Millis(1_763_700_000_000)

// log is what a partition reads and what it wrote, in memory.
type log struct {
	t           *testing.T
	partition   int32
	partitions  int32
	heartbeats  []schemas.Record
	statuses    []schemas.Record
	published   []schemas.Record
	out         stream.Outbox
	warnings    bytes.Buffer
	p           *Partition
	topicID     [16]byte
	settings    liveness.Settings
	users       identity.Users
	policies    *lacking // nil: no PolicyLog
	keys        *signing.Keys
	snapshots   []schemas.Record
	cadence     Cadence
	reads       int // records that restores have read
	minLogEpoch uint32
}

func newLog(t *testing.T, partition, partitions int32) *log {
	return &log{t: t, partition: partition, partitions: partitions, topicID: [16]byte{1}, settings: liveness.Defaults()}
}

// freshLog is a log that a detector has begun to read.
func freshLog(t *testing.T, partition, partitions int32) *log {
	l := newLog(t, partition, partitions)
	l.restore(-1, "")
	return l
}

// restore begins anew at the committed offset; -1 for none.
func (l *log) restore(committed int64, metadata string) {
	l.t.Helper()
	config := Config{Settings: l.settings, Log: slog.New(slog.NewTextHandler(&l.warnings, nil)),
		Metrics: NewMetrics(prometheus.NewRegistry()), Now: func() time.Time { return (start + 1000).Time() }, Users: l.users, Snapshots: l.cadence,
		Keys: l.keys, Topic: "presence.heartbeats", MinLogEpoch: l.minLogEpoch}
	if l.policies != nil {
		config.Policies = l.policies
	}
	l.p = NewPartition(config, l.partition)
	err := l.p.Restore(context.Background(), stream.Assignment{Partition: l.partition, Partitions: l.partitions, Offset: committed,
		Metadata: metadata, LogEnd: int64(len(l.heartbeats)), TopicID: l.topicID}, l.read)
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *log) read(_ context.Context, topic schemas.Topic, from, to int64, each func(*schemas.Record) error) error {
	records := l.statuses
	switch topic {
	case schemas.Snapshots:
		records = l.snapshots
	case schemas.Heartbeats:
		records = l.heartbeats[from:min(to, int64(len(l.heartbeats)))]
	case schemas.Transitions:
		records = l.published
		if from < -1 {
			records = records[max(0, len(records)+1+int(from)):]
		}
	}
	for i := range records {
		l.reads++
		if err := each(&records[i]); err != nil {
			return err
		}
	}
	return nil
}

// write appends a record and has it handled. What comes of it is in out.
func (l *log) write(at schemas.Millis, value []byte) {
	l.t.Helper()
	r := schemas.Record{Partition: l.partition, Offset: int64(len(l.heartbeats)), Time: at, Value: value}
	l.heartbeats = append(l.heartbeats, r)
	l.out = stream.Outbox{}
	if err := l.p.Handle(&r, &l.out); err != nil {
		l.t.Fatal(err)
	}
	l.out.Forwards = slices.DeleteFunc(l.out.Forwards, func(o schemas.Outgoing) bool {
		var f schemas.Frame
		return f.Decode(o.Value) == nil && f.Policy != nil
	})
	for _, o := range l.out.Records {
		switch o.Topic {
		case schemas.Statuses:
			l.statuses = append(l.statuses, schemas.Record{Time: at, Offset: int64(len(l.statuses)), Key: o.Key, Value: o.Value})
		case schemas.Snapshots:
			l.snapshots = append(l.snapshots, schemas.Record{Time: at, Offset: int64(len(l.snapshots)), Key: o.Key, Value: o.Value})
		case schemas.Transitions:
			l.published = append(l.published, schemas.Record{Time: at, Offset: int64(len(l.published)), Key: o.Key, Value: o.Value})
		}
	}
}

func (l *log) transitions() []*schemas.Transition {
	l.t.Helper()
	var all []*schemas.Transition
	for _, o := range l.out.Records {
		if o.Topic == schemas.Transitions {
			all = append(all, must.Get(schemas.DecodeTransition(o.Value))(l.t))
		}
	}
	return all
}

func beat(user schemas.UserID, age schemas.Millis) []byte {
	return schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: user, Device: 7, Kind: schemas.Web, Age: age}})
}

// inPartition is the first user from id on who belongs to the partition.
func inPartition(id schemas.UserID, partition, partitions int32) schemas.UserID {
	for schemas.PartitionOf(id, partitions) != partition {
		id++
	}
	return id
}

func TestATransitionAndItsStatusAreWrittenToTheUsersPartition(t *testing.T) {
	l := newLog(t, 1, 4)
	user := inPartition(1, 1, 4)
	l.restore(-1, "")
	l.write(start, beat(user, 0))
	if len(l.out.Records) != 5 {
		t.Fatalf("%d records were written, want a snapshot and its manifest, the rules, a transition and a status", len(l.out.Records))
	}
	for _, o := range l.out.Records {
		if o.Partition != 1 || o.Topic != schemas.Snapshots && !schemas.IsRulesKey(o.Key) && !bytes.Equal(o.Key, user.Key()) {
			t.Errorf("%s: partition %d, key %x", o.Topic, o.Partition, o.Key)
		}
	}
}

func TestTheGaugesOfUsersFollowTheCountsByStateAndKindAndEndWithThePartition(t *testing.T) {
	l := newLog(t, 1, 4)
	idler := inPartition(1, 1, 4)
	worker := inPartition(idler+1, 1, 4)
	l.restore(-1, "")
	beats := []schemas.Beat{{User: idler, Device: 7, Kind: schemas.Web, Idle: schemas.Millis(l.settings.IdleAfter.Milliseconds())},
		{User: worker, Device: 7, Kind: schemas.Web}, {User: worker, Device: 8, Kind: schemas.Mobile}}
	l.write(start, schemas.AppendFrame(nil, schemas.FrameHead{}, beats))
	l.write(start+1000, schemas.AppendTick(nil))
	users := l.p.config.Metrics.Users
	expect := func(state, kind string, want float64) {
		t.Helper()
		if got := testutil.ToFloat64(users.WithLabelValues(state, kind)); got != want {
			t.Errorf("%s, %s: %v users, want %v", state, kind, got, want)
		}
	}
	for _, kind := range []string{"any", "web", "mobile"} {
		expect("online", kind, 1)
	}
	expect("away", "any", 1)
	expect("away", "web", 1)
	expect("away", "mobile", 0)
	if series := testutil.CollectAndCount(users); series != 2*(1+len(schemas.Kinds)) {
		t.Errorf("there are %d series, want one for each state and kind", series)
	}
	l.p.Close()
	expect("online", "any", 0)
	expect("away", "web", 0)
}

func TestABeatInAWrongPartitionIsForwardedOnceWithItsTrueAgeAndWarnedAbout(t *testing.T) {
	l := newLog(t, 1, 4)
	stranger, neighbour := inPartition(1, 2, 4), inPartition(1, 1, 4)
	l.restore(-1, "")
	l.write(start, schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: stranger, Device: 7, Age: 10}, {User: neighbour, Device: 7}}))
	if got := l.transitions(); len(got) != 1 || got[0].User != neighbour {
		t.Errorf("published %v, want the neighbour alone", got)
	}
	if len(l.out.Forwards) != 1 || l.out.Forwards[0].Partition != 2 {
		t.Fatalf("forwarded %v, want one frame to partition 2", l.out.Forwards)
	}
	var f schemas.Frame
	if err := f.Decode(l.out.Forwards[0].Value); err != nil {
		t.Fatal(err)
	}
	var b schemas.Beat
	rows := f.Beats()
	if f.ForwardedAt != start || !rows.Next(&b) || b.User != stranger || b.Age != 10 {
		t.Errorf("forwarded of %d %+v, want user %d with the age 10 ms at %d", f.ForwardedAt, b, stranger, start)
	}
	if !strings.Contains(l.warnings.String(), "partitioner=murmur2_random") {
		t.Errorf("the warning does not name the fix: %s", l.warnings.String())
	}
	forwarded := l.out.Forwards[0].Value
	l.write(start, forwarded)
	if len(l.out.Forwards) != 0 || len(l.out.Rejected) != 1 {
		t.Errorf("a frame that was forwarded and is wrong again: forwarded %d, rejected %d, want 0 and 1", len(l.out.Forwards), len(l.out.Rejected))
	}
}

func TestAChoiceOfAUserInAWrongPartitionIsForwardedOnceAsItIs(t *testing.T) {
	stranger := inPartition(1, 2, 4)
	override := schemas.Override{State: schemas.DoNotDisturb, Until: start + 1000, Note: "at lunch"}
	asked, denied := denies(t, []schemas.UserID{2, 3}, []schemas.UserID{4}), denies(t, []schemas.UserID{2, 3}, nil) // nobody denied 4
	for name, value := range map[string][]byte{
		"visibility": schemas.AppendVisibility(nil, stranger, schemas.Nobody),
		"override":   schemas.AppendOverride(nil, stranger, override, schemas.Name{}),
		"none":       schemas.AppendOverride(nil, stranger, schemas.Override{}, schemas.Name{}),
		"last seen":  schemas.AppendLastSeen(nil, stranger, schemas.SeenNever, schemas.Name{}),
		"denies":     schemas.AppendDenies(nil, stranger, asked, schemas.Name{}),
		"exact":      schemas.AppendLastSeen(nil, stranger, schemas.SeenExactly, schemas.Name{}),
	} {
		l := newLog(t, 1, 4)
		l.restore(-1, "")
		l.write(start, value)
		if len(l.out.Forwards) != 1 || l.out.Forwards[0].Partition != 2 || len(l.transitions()) != 0 {
			t.Fatalf("%s: forwarded %v, want one frame to partition 2", name, l.out.Forwards)
		}
		forwarded := l.out.Forwards[0].Value
		right := newLog(t, 2, 4)
		right.restore(-1, "")
		right.write(start, forwarded)
		switch got := right.transitions(); {
		case name == "none" || name == "exact":
			if len(got) != 0 {
				t.Errorf("%s: published %+v", name, got)
			}
		case len(got) != 1 || (got[0].Visibility == schemas.Nobody) != (name == "visibility") ||
			name == "override" && got[0].Override != override || name == "last seen" && got[0].Override != schemas.Override{LastSeen: schemas.SeenNever} ||
			name == "denies" && (got[0].Denies != denied || got[0].Cause != schemas.AudienceSet):
			t.Errorf("%s: published %+v", name, got)
		}
		if l.write(start, forwarded); len(l.out.Forwards) != 0 || len(l.out.Rejected) != 1 {
			t.Errorf("%s: forwarded twice", name)
		}
	}
}

func TestGarbageIsRejectedAndThePartitionGoesOn(t *testing.T) {
	l := freshLog(t, 0, 1)
	l.write(start, []byte("garbage"))
	if len(l.out.Rejected) != 1 || !schemas.IsInvalid(l.out.Rejected[0].Reason) {
		t.Fatalf("rejected %v", l.out.Rejected)
	}
	l.write(start, beat(1, 0))
	if len(l.transitions()) != 1 {
		t.Error("the partition did not go on")
	}
}

func TestARestartPublishesWhatWouldHaveBeenPublished(t *testing.T) {
	l := freshLog(t, 0, 1)
	l.write(start, beat(1, 0))
	l.write(start+40_000, schemas.AppendTick(nil))
	metadata := l.p.Checkpoint()
	l.restore(2, metadata)
	l.write(start+44_000, schemas.AppendTick(nil))
	l.write(start+48_000, schemas.AppendTick(nil))
	// 35 s of the first gap did not count.
	l.write(start+52_000, schemas.AppendTick(nil))
	if got := l.transitions(); len(got) != 0 {
		t.Errorf("published %v within the window", got)
	}
	for at := start + 56_000; at <= start+84_000; at += 4000 {
		l.write(at, schemas.AppendTick(nil))
	}
	if got := l.transitions(); len(got) != 1 || got[0].To != schemas.Away || got[0].At != start+80_000 || got[0].LastSeen != start {
		t.Errorf("published %+v, want away at +80 s: 45 s of silence and 35 s that did not count", got)
	}
}

func TestARecreatedLogBeginsAnotherEpochSoThatVersionsGrow(t *testing.T) {
	l := freshLog(t, 0, 1)
	for range 5 {
		l.write(start, schemas.AppendTick(nil))
	}
	l.write(start, beat(1, 0))
	old := l.transitions()[0].Version
	metadata := l.p.Checkpoint()
	l.heartbeats, l.topicID = nil, [16]byte{2}
	l.restore(6, metadata)
	l.write(start+1000, schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: 1, Device: 7, Kind: schemas.Web, Bye: true}}))
	l.write(start+1000, beat(2, 0))
	if got := l.transitions(); len(got) != 1 || got[0].Version <= old || got[0].Version.LogEpoch() != 2 {
		t.Errorf("published %+v after version %d", got, old)
	}
}

func TestALostCommitBeginsAnEpochAboveThoseOfTheStatuses(t *testing.T) {
	l := freshLog(t, 0, 1)
	l.write(start, beat(1, 0))
	l.heartbeats = nil
	l.restore(-1, "")
	if !strings.Contains(l.warnings.String(), "users=1") {
		t.Errorf("nothing was said of the user whose heartbeats are gone: %s", l.warnings.String())
	}
	l.write(start+1000, beat(2, 0))
	if got := l.transitions(); len(got) != 1 || got[0].Version.LogEpoch() != 2 {
		t.Errorf("published %+v, want log epoch 2", got)
	}
}

// Kafka forgets the commits of a topic that is deleted.
func TestALostCommitBeginsANewEpochAlthoughNobodyIsHere(t *testing.T) {
	l := freshLog(t, 0, 1)
	l.write(start, beat(1, 0))
	l.write(start+1000, schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: 1, Device: 7, Kind: schemas.Web, Bye: true}}))
	old := l.published[len(l.published)-1]
	l.heartbeats, l.statuses = nil, nil // compaction has taken the tombstones
	l.restore(-1, "")
	if !strings.Contains(l.warnings.String(), "ALARM") {
		t.Errorf("nothing was said of the lost commit: %s", l.warnings.String())
	}
	l.write(start+2000, beat(1, 0))
	before, err := schemas.DecodeTransition(old.Value)
	if got := l.transitions(); err != nil || len(got) != 1 || got[0].Version <= before.Version {
		t.Errorf("published %+v after version %d (%v)", got, before.Version, err)
	}
}

func TestALostCommitBeginsTheLogEpochThatTheStoresAwaitIfTheTopicsKnowALowerOne(t *testing.T) {
	for given, want := range map[uint32]uint32{0: 2, 1: 2, 2: 2, 7: 7} {
		l := freshLog(t, 0, 1)
		l.write(start, beat(1, 0))
		l.minLogEpoch = given
		l.restore(-1, "")
		if got := l.p.machine.LogEpoch(); got != want {
			t.Errorf("with at least %d log epoch %d begins, want %d", given, got, want)
		}
		l.minLogEpoch = 1
		l.restore(l.p.Next(), l.p.Checkpoint())
		if got := l.p.machine.LogEpoch(); got != want {
			t.Errorf("with at least %d log epoch %d goes on, want %d", given, got, want)
		}
	}
	l := newLog(t, 0, 1)
	l.minLogEpoch = 3
	l.restore(-1, "") // the copy has nothing of this partition
	if got := l.p.machine.LogEpoch(); got != 3 {
		t.Errorf("log epoch %d begins, want 3", got)
	}
	l.write(start, beat(1, 0))
	committed, metadata := l.p.Next(), l.p.Checkpoint()
	l.heartbeats, l.topicID, l.minLogEpoch = nil, [16]byte{2}, 6 // the topic was created again
	l.restore(committed, metadata)
	if got := l.p.machine.LogEpoch(); got != 6 {
		t.Errorf("log epoch %d begins with another topic, want 6", got)
	}
}

func TestALostCommitReadsTheTailOfTheTransitionsOnly(t *testing.T) {
	l := freshLog(t, 0, 1)
	for range 3 {
		l.write(start, schemas.AppendTick(nil))
	}
	change := schemas.Transition{User: 1, From: schemas.Offline, To: schemas.Online, At: start, Cause: schemas.FirstBeat, Visibility: schemas.Everyone, Version: schemas.NewVersion(4, 1, 0)}
	l.published = slices.Repeat([]schemas.Record{{Time: start, Value: change.Encode()}}, tail+1000)
	l.reads = 0
	l.restore(-1, "")
	if l.p.machine.LogEpoch() != 5 || l.p.Next() != 2 {
		t.Errorf("log epoch %d, next %d; want 5 and 2", l.p.machine.LogEpoch(), l.p.Next())
	}
	if l.reads > tail+10 {
		t.Errorf("%d records are read", l.reads)
	}
}

func TestUsersWhoseHeartbeatsAreGoneAreNotOffline(t *testing.T) {
	l := freshLog(t, 0, 1)
	l.write(start, beat(1, 0))
	metadata := l.p.Checkpoint()
	// Retention has taken everything up to offset 100.
	l.p = nil
	l.heartbeats = make([]schemas.Record, 100)
	config := Config{Settings: liveness.Defaults(), Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry()), Now: time.Now}
	l.p = NewPartition(config, 0)
	err := l.p.Restore(context.Background(), stream.Assignment{Partitions: 1, Offset: 1, Metadata: metadata, LogStart: 100, LogEnd: 100, TopicID: l.topicID}, l.read)
	if err != nil {
		t.Fatal(err)
	}
	l.write(start+20*60_000, schemas.AppendTick(nil))
	if got := l.transitions(); len(got) != 0 {
		t.Errorf("published %+v of a user of whom nothing is known", got)
	}
}

func TestAnUnreadableCheckpointIsAnErrorThatShowsIt(t *testing.T) {
	l := newLog(t, 0, 1)
	p := NewPartition(Config{Settings: liveness.Defaults(), Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry()), Now: time.Now}, 0)
	err := p.Restore(context.Background(), stream.Assignment{Partitions: 1, Offset: 1, Metadata: "!", LogEnd: 1}, l.read)
	if err == nil || !strings.Contains(err.Error(), `"!"`) {
		t.Errorf("got %v", err)
	}
}

func TestAnOutageDoesNotCountForAChangeThatWaitsForHours(t *testing.T) {
	t.Parallel()
	var at [2]schemas.Millis
	for i := range at {
		l := newLog(t, 0, 1)
		l.settings.FlapBurst, l.settings.FlapInterval = 1, time.Hour
		l.restore(-1, "")
		now := start
		for n := range 2 {
			now += 1000
			l.write(now, schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: 1, Device: 7, Kind: schemas.Web, Bye: n%2 == 1}}))
		}
		now += 65_000 // a minute in which presence time stands still
		for n := 0; at[i] == 0 && n < 4000; n++ {
			l.write(now, schemas.AppendTick(nil))
			if len(l.transitions()) != 0 {
				at[i] = now
			}
			if i == 1 && n%300 == 299 {
				l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
			}
			now += 4000
		}
	}
	const due = start + 1000 + 60*60_000 + 60_000
	if at[0] != at[1] || at[0] < due || at[0] > due+4000 {
		t.Errorf("it went out at %v, and with restarts at %v, due at %v", at[0], at[1], due)
	}
}

func TestAFrameOfAnEpochThatNoGatewayHasIsADeadLetter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		epoch schemas.Millis
		takes bool
	}{
		"now": {start, true}, "a day ahead": {start + 86_400_000, true}, "in seconds": {start / 1000, false}, "in 5138": {100_000_000_000_000, false},
		"now, by a broker two days behind": {start, true},
	} {
		l, at := newLog(t, 0, 1), start
		l.restore(-1, "")
		if strings.Contains(name, "behind") {
			l.write(start, schemas.AppendTick(nil))
			at -= 2 * 86_400_000
		}
		l.write(at, schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "gw-1", GatewayEpoch: c.epoch, Sequence: 1},
			[]schemas.Beat{{User: 1, Device: 7, Kind: schemas.Web}}))
		if n := len(l.transitions()); n != 0 != c.takes || len(l.out.Rejected) != 0 == c.takes {
			t.Errorf("%s: %d transitions, rejected %v", name, n, l.out.Rejected)
		}
		if !c.takes && !strings.Contains(fmt.Sprint(l.out.Rejected[0].Reason), "gateway_epoch_ms: must be when the gateway started, in Unix milliseconds") {
			t.Errorf("%s: rejected %v", name, l.out.Rejected[0].Reason)
		}
	}
}
