package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/ksuid"

	"github.com/stillhere/stillhere/detector"
	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// world is a Kafka stand-in with a detector that has short limits.
type world struct {
	t        *testing.T
	settings liveness.Settings
	cluster  kafka.Config
	reader   *kafka.Reader
	producer *kafka.Producer
	seen     chan stream.Logged[*schemas.Transition]
}

func newWorld(t *testing.T) *world { return newWorldOf(t, identity.Users{}) }

// newWorldOf is newWorld of a pipeline of these users.
func newWorldOf(t *testing.T, users identity.Users) *world {
	w := &world{t: t, settings: liveness.Defaults(), seen: make(chan stream.Logged[*schemas.Transition], 100)}
	w.settings.HeartbeatInterval, w.settings.OnlineTTL, w.settings.OfflineDebounce = 100*time.Millisecond, 300*time.Millisecond, 100*time.Millisecond
	w.settings.AwayTTL = time.Second
	cluster, err := embedded.StartKafka(embedded.KafkaConfig{})
	w.must(err)
	t.Cleanup(cluster.Close)
	log := slog.New(slog.DiscardHandler)
	cfg := kafka.Config{Brokers: cluster.Addrs(), InstanceName: "test", TickInterval: 50 * time.Millisecond, Users: users}
	_, err = admin.ApplyTopics(t.Context(), cfg, 2, 1)
	w.must(err)
	w.cluster = cfg
	w.producer = kafkatest.Producer(w.t, cfg)
	w.reader = kafkatest.Reader(w.t, cfg)
	policies, err := policy.NewKeeper(t.Context(), cfg, log)
	w.must(err)
	config := detector.Config{Policies: policies, Settings: w.settings, Users: users, Log: log, Metrics: detector.NewMetrics(prometheus.NewRegistry()), Now: time.Now}
	w.run(processor.New(cfg, "detector", schemas.Heartbeats,
		func(p int32) processor.Task { return detector.NewPartition(config, p) }, w.producer, log, nil).Run)
	w.run(consumer.New(cfg, "watch", schemas.Transitions, stream.DecodeTransition, w, w.producer, log, nil, consumer.WithoutGroup()).Run)
	return w
}

// run runs something until the test ends.
func (w *world) run(f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
}

// Apply hands on what the detector has published.
func (w *world) Apply(_ context.Context, batch stream.Batch[stream.Logged[*schemas.Transition]]) error {
	for _, l := range batch.Items {
		w.seen <- l
	}
	return nil
}

func (w *world) must(err error) {
	w.t.Helper()
	must.Do(w.t, err)
}

func (w *world) beat(beats ...schemas.Beat) {
	w.t.Helper()
	w.must(w.producer.AppendSync(w.t.Context(), schemas.Outgoing{Topic: schemas.Heartbeats,
		Partition: schemas.PartitionOf(beats[0].User, 2), Value: schemas.AppendFrame(nil, schemas.FrameHead{}, beats)}))
}

// next waits for the user's next transition.
func (w *world) next(user schemas.UserID) *schemas.Transition {
	w.t.Helper()
	for {
		select {
		case l := <-w.seen:
			if l.Message.User == user {
				return l.Message
			}
		case <-time.After(20 * time.Second):
			w.t.Fatal("no transition came")
		}
	}
}

func (w *world) explain(o Options) (*Explanation, string) {
	w.t.Helper()
	e, err := Explain(w.t.Context(), w.cluster, w.reader, o)
	w.must(err)
	var text bytes.Buffer
	w.must(e.Write(&text))
	return e, text.String()
}

func TestATransitionIsTracedToItsRecordAndItsRule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.beat(schemas.Beat{User: 42, Device: 7, Kind: schemas.Mobile, Age: 20, Idle: 5})
	online, away, offline := w.next(42), w.next(42), w.next(42)
	options := Options{Event: online.EventID().String(), User: 42}

	e, text := w.explain(options)
	if e.Replay == nil || !e.Replay.Agrees || e.Replay.Before.State != "offline" || e.Heartbeat == nil || len(e.Heartbeat.Rows) != 1 || e.Heartbeat.Rows[0].At != online.At {
		t.Errorf("the first beat is explained as %+v", e)
	}
	if len(e.Before) != 0 || len(e.After) != 2 || e.After[1].Event != offline.EventID().String() {
		t.Errorf("neighbours are %v and %v", e.Before, e.After)
	}
	wants(t, text, "user 42 went from offline to online", "beat of device 7 (mobile)", "age 20ms, idle 5ms", "presence.heartbeats partition",
		"before the record: offline", "after it: online since", "It gives the published change.")

	options.Event, options.User = away.EventID().String(), 0
	e, text = w.explain(options)
	if d := e.Replay.Before.Devices; !e.Replay.Agrees || len(d) != 1 || d[0].Until != away.At || e.Replay.After.Devices != nil || e.Heartbeat.Kind != "tick" {
		t.Errorf("silence is explained as %+v", e.Replay)
	}
	wants(t, text, "a tick of the detector", "silent at "+away.At.String(), "reconnect_window 30s, cohort_rate 2000", "By policy "+w.settings.ID()+":")

	options.Event = offline.EventID().String()
	if e, _ = w.explain(options); len(e.Before) != 2 || e.Replay.Before.Next != offline.At {
		t.Errorf("the end of away is explained as %+v after %+v", e.Replay, e.Before)
	}
	w.must(json.NewEncoder(new(bytes.Buffer)).Encode(e))
	ended := schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "g", GatewayEpoch: 1, LeaseEnded: 4000}, nil)
	record, _ := recordOf(&schemas.Record{Value: ended}, transition{})
	wants(t, record.what(), "hears the gateway no more")
}

func TestAnOpenConnectionIsCalledSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, bye := range []bool{false, true} {
		value := schemas.AppendFrame(nil, schemas.FrameHead{Gateway: "g", GatewayEpoch: schemas.AnyProcess},
			[]schemas.Beat{{User: 42, Device: 7, Kind: schemas.Mobile, Connection: 3, Bye: bye}})
		w.must(w.producer.AppendSync(t.Context(), schemas.Outgoing{Topic: schemas.Heartbeats,
			Partition: schemas.PartitionOf(42, 2), Value: value}))
	}
	_, text := w.explain(Options{Event: w.next(42).EventID().String(), User: 42})
	wants(t, text, "open of device 7 (mobile)", ", its connection is open", "It gives the published change.")
	_, text = w.explain(Options{Event: w.next(42).EventID().String(), User: 42})
	wants(t, text, "bye  of device 7 (mobile)", ", its connection is open")
}

func TestAChoiceOfTheUserIsExplainedByItsRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for value, want := range map[string][]string{
		string(schemas.AppendLastSeen(nil, 42, schemas.SeenCoarsely, schemas.Name{})): {"stayed offline and shows last seen otherwise",
			`override       {"last_seen":"coarse"}`, "the user chose what others learn", "it is coarse", "here: coarse", "the user shows last seen: coarse"},
		string(schemas.AppendOverride(nil, 43, schemas.Override{State: schemas.DoNotDisturb}, schemas.Name{})): {
			"under another override", `{"state":"dnd"}`, "the override of the user: dnd"},
		string(schemas.AppendDenies(nil, 44, must.Get(schemas.NewDenies("", 44, []schemas.UserID{45}, nil))(t), schemas.Name{})): {
			"stayed offline with other denied viewers", "to which single viewers it looks hidden", "a change of the denied viewers of the user"},
	} {
		var f schemas.Frame
		w.must(f.Decode([]byte(value)))
		w.must(w.producer.AppendSync(t.Context(), schemas.Outgoing{Topic: schemas.Heartbeats,
			Partition: schemas.PartitionOf(f.VisibilityUser, 2), Value: []byte(value)}))
		_, text := w.explain(Options{Event: w.next(f.VisibilityUser).EventID().String(), User: f.VisibilityUser})
		wants(t, text, append(want, "It gives the published change.")...)
	}
}

func TestAReplayThatDisagreesSaysSo(t *testing.T) {
	t.Parallel()
	known := &liveness.View{State: "online"}
	e := Explanation{Replay: &Replay{Replayed: &detector.Replayed{Before: known, After: known}}}
	text := func() string {
		var b bytes.Buffer
		_ = e.Write(&b) // into memory
		return b.String()
	}
	wants(t, text(), "IT GIVES NO CHANGE OF THE USER at this record")
	e.Replay.Produced = []Change{{From: "online", To: "away", Cause: "idle", Event: "2gVCcZ6TqUq5bkKTo7CqEYvyHr0"}}
	wants(t, text(), "IT GIVES ANOTHER CHANGE than the published one: went from online to away at never: idle, event 2gVCcZ6TqUq5bkKTo7CqEYvyHr0")
}

func TestWhatCannotBeExplainedIsSaidClearly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.beat(schemas.Beat{User: 1, Device: 7, Kind: schemas.Mobile})
	w.next(1)
	recent, err := ksuid.NewRandom()
	w.must(err)
	for event, want := range map[string]string{
		"":              "it must be 27 letters and digits",
		"not-an-event":  `"not-an-event" is none`,
		recent.String(): "there is no event " + recent.String(),
	} {
		if _, err := Explain(t.Context(), w.cluster, w.reader, Options{Event: event}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("event %q: %v", event, err)
		}
	}
}

func TestTheProgressOfASearchSaysHowFarItHasCome(t *testing.T) {
	t.Parallel()
	var said [][2]int
	s := search{progress: func(records int, reached schemas.Millis) { said = append(said, [2]int{records, int(reached)}) }}
	for i := range 2500 {
		s.look(&schemas.Record{Time: schemas.Millis(10 * (i + 1))})
	}
	if want := [][2]int{{1000, 10_000}, {2000, 20_000}}; !slices.Equal(said, want) {
		t.Errorf("said %v, want %v", said, want)
	}
}

func TestNothingOfAnErasedUserIsExplained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.beat(schemas.Beat{User: 5, Device: 7, Kind: schemas.Mobile})
	online := w.next(5)
	w.must(w.producer.AppendSync(t.Context(), schemas.Outgoing{Topic: schemas.Heartbeats, Partition: schemas.PartitionOf(5, 2),
		Key: schemas.UserID(5).Key(), Value: schemas.AppendErasure(nil, 5, schemas.Name{}, online.At+86_400_000, 0, false)}))
	erasure := w.next(5)
	for erasure.Cause != schemas.Erased {
		erasure = w.next(5)
	}
	w.beat(schemas.Beat{User: 5, Device: 7, Kind: schemas.Mobile})
	back := w.next(5)
	for _, void := range []*schemas.Transition{online, erasure} {
		_, err := Explain(t.Context(), w.cluster, w.reader, Options{Event: void.EventID().String(), User: 5})
		if err == nil || !strings.Contains(err.Error(), "there is no event") {
			t.Errorf("%s is explained: %v", schemas.CauseWord(void.Cause), err)
		}
	}
	if e, _ := w.explain(Options{Event: back.EventID().String(), User: 5}); len(e.Before) != 0 {
		t.Errorf("before the new user came there were %+v", e.Before)
	}
}

func TestARecordThatIsGoneIsNotMistakenForAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.beat(schemas.Beat{User: 1, Device: 7, Kind: schemas.Mobile})
	first := w.next(1)
	for version, want := range map[schemas.Version]string{
		schemas.NewVersion(1, 1_000_000, 0): "recreated since",
		first.Version:                       "after the transition was published",
	} {
		old := *first
		old.At, old.Version = first.At-3_600_000, version
		l := transition{Partition: schemas.PartitionOf(1, 2), Time: old.At, Message: &old}
		record, gone, err := readHeartbeat(t.Context(), w.reader, l, l.Message.Version.Offset())
		if err != nil || record != nil || !strings.Contains(gone, want) {
			t.Errorf("got %v, %q, %v, want %q", record, gone, err, want)
		}
	}
}

func wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in\n%s", part, text)
		}
	}
}

// known are names.
type known map[schemas.UserID]schemas.UserName

func (k known) Names(context.Context, []schemas.UserID) (map[schemas.UserID]schemas.UserName, error) {
	return k, nil
}

func TestUsersAreCalledByTheirNamesAndNotByTheirIDs(t *testing.T) {
	t.Parallel()
	users := identity.Named(identity.Key{1})
	w := newWorldOf(t, users)
	ann := schemas.Name{Tenant: "acme", Text: "ann\n\x1b[31m"}
	id := users.ID(ann.Tenant, ann.Text)
	frame := schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: id, Device: 7, Kind: schemas.Mobile}})
	w.must(w.producer.AppendSync(t.Context(), schemas.Outgoing{Topic: schemas.Heartbeats,
		Partition: schemas.PartitionOf(id, 2), Value: schemas.AppendNamedRow(frame, 0, ann)}))
	event := w.next(id).EventID().String()
	w.next(id)
	asked := func(names known) (*Explanation, string) {
		return w.explain(Options{Event: event, User: id, Called: ann, Names: names})
	}
	called := func(n schemas.UserName) known { return known{id: n} }

	e, text := asked(known{}) // what the change carries
	printed, err := json.Marshal(e)
	w.must(err)
	if want := `user "ann\n\x1b[31m" of tenant acme went from offline to online`; !strings.HasPrefix(text, want) || strings.Contains(text+string(printed), id.String()) {
		t.Errorf("%s\n%s, want %s", printed, text, want)
	}
	if c := e.After[0]; *c.Tenant != "acme" || *c.Name != ann.Text || c.User != 0 {
		t.Errorf("the change after it is of %+v", c)
	}
	if e, text = asked(called(schemas.UserName{User: id, Name: schemas.Name{Text: "another"}})); e.Change.Name != nil || strings.Contains(text, `"ann`) ||
		!strings.HasPrefix(text, "a user whose name is not known") {
		t.Errorf("of a user who is known by another name: %s", text)
	}
	_, err = Explain(t.Context(), w.cluster, w.reader, Options{Event: "0ujsszwN8NRY24YaXiTIE2VWDTS", User: id, Called: ann})
	if err == nil || !strings.Contains(err.Error(), "of tenant acme") || strings.Contains(err.Error(), id.String()) {
		t.Errorf("an event that is not there: %v", err)
	}
}
