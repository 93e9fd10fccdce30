package schemas

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

var (
	anyMillis = rapid.Custom(func(t *rapid.T) Millis { return Millis(rapid.Int64Range(0, maxMillis-1).Draw(t, "ms")) })
	anyState  = rapid.SampledFrom([]State{Offline, Away, Online})
	anyKinds  = rapid.Custom(func(t *rapid.T) KindSet {
		some := rapid.SliceOf(rapid.SampledFrom(Kinds[:]))
		return SetOfKinds(some.Draw(t, "kinds")...).WithActiveOf(SetOfKinds(some.Draw(t, "active")...))
	})
	anyVisibility = rapid.SampledFrom([]Visibility{Everyone, Nobody})
	anyVersion    = rapid.Custom(func(t *rapid.T) Version { return Version(rapid.Int64Range(1, 1<<62).Draw(t, "version")) })
	anyUser       = rapid.Custom(func(t *rapid.T) UserID { return UserID(rapid.Int64Range(1, maxUserID).Draw(t, "user")) })
)

func TestATransitionReadsBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := Transition{
			User: anyUser.Draw(t, "user"), From: anyState.Draw(t, "from"), To: anyState.Draw(t, "to"),
			At: anyMillis.Draw(t, "at") + 1, LastSeen: anyMillis.Draw(t, "seen"), LastActive: anyMillis.Draw(t, "active"),
			Cause: Cause(rapid.Int32Range(1, 12).Draw(t, "cause")), Device: DeviceID(rapid.Uint32().Draw(t, "device")),
			Kinds: anyKinds.Draw(t, "kinds"), Visibility: anyVisibility.Draw(t, "visibility"),
			Version: anyVersion.Draw(t, "version"), Policy: rapid.StringMatching("[0-9a-f]{12}").Draw(t, "policy"),
			LeftOut: rapid.Uint32().Draw(t, "left out"), ErasedUntil: anyMillis.Draw(t, "erased until") + 1,
		}
		got, err := DecodeTransition(want.Encode())
		if err != nil || *got != want {
			t.Fatalf("reads as %+v, %v; want %+v", got, err, want)
		}
	})
}

func TestAStatusReadsBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := Status{
			User: anyUser.Draw(t, "user"), State: anyState.Draw(t, "state"), Since: anyMillis.Draw(t, "since"),
			LastSeen: anyMillis.Draw(t, "seen"), LastActive: anyMillis.Draw(t, "active"), Kinds: anyKinds.Draw(t, "kinds"),
			Visibility: anyVisibility.Draw(t, "visibility"), Version: anyVersion.Draw(t, "version"),
		}
		got, err := DecodeStatus(want.Encode())
		if err != nil || *got != want {
			t.Fatalf("reads as %+v, %v; want %+v", got, err, want)
		}
	})
}

func TestACheckpointReadsBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := Checkpoint{
			LogEpoch: rapid.Uint32().Draw(t, "epoch"), LogTime: anyMillis.Draw(t, "time"),
			Snapshot: SnapshotName{ID: rapid.Uint64Min(1).Draw(t, "id"), Next: rapid.Int64().Draw(t, "next"), Chunks: rapid.IntRange(0, 1<<30).Draw(t, "chunks")},
		}
		copy(want.Snapshot.Sum[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "sum"))
		copy(want.TopicID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "topic"))
		for range rapid.IntRange(0, 8).Draw(t, "masters") {
			want.Masters = append(want.Masters, fmt.Sprintf("%08x", rapid.Uint32().Draw(t, "master")))
		}
		got, err := DecodeCheckpoint(want.Encode())
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Fatalf("reads as %+v, %v; want %+v", got, err, want)
		}
	})
}

func TestAnOffsetNamesTheTransactionItWasCommittedIn(t *testing.T) {
	checkpoint := anyCheckpoint()
	for _, text := range []string{"", checkpoint.Encode()} {
		for _, want := range []Transaction{{0, 0}, {1, 58}, {math.MaxInt64, math.MaxInt16}} {
			if got, ok := TransactionOn(want.On(text)); !ok || got != want {
				t.Errorf("%+v on %q is read back as %+v, %v", want, text, got, ok)
			}
		}
		if _, ok := TransactionOn(text); ok {
			t.Errorf("%q names a transaction", text)
		}
	}
	got, err := DecodeCheckpoint(Transaction{1, 58}.On(checkpoint.Encode()))
	if err != nil || !reflect.DeepEqual(*got, checkpoint) {
		t.Errorf("the checkpoint under it is %+v (%v), was %+v", got, err, checkpoint)
	}
	if got := (Transaction{1, 58}).On("not ours!"); got != "not ours!" {
		t.Errorf("a text of somebody else's became %q", got)
	}
}

func TestACheckpointWithAllThereCanBeIsBelowAKibibyte(t *testing.T) {
	t.Parallel()
	c := fullCheckpoint()
	c.Bases = slices.Repeat(c.Bases, 2)
	if n := len(Transaction{math.MaxInt64, math.MaxInt16}.On(c.Encode())); n > 1024 { // Kafka takes 4,096
		t.Errorf("takes %d bytes", n)
	}
}

func TestMessagesThatCannotBeRightAreRefusedWithTheFieldNamed(t *testing.T) {
	t.Parallel()
	transition := func(change func(*pb.Transition)) func() error {
		good := anyTransition()
		var m pb.Transition
		if err := proto.Unmarshal(good.Encode(), &m); err != nil {
			t.Fatal(err)
		}
		change(&m)
		return func() error { _, err := DecodeTransition(encode(&m)); return err }
	}
	status := func(change func(*pb.Status)) func() error {
		good := anyStatus()
		var m pb.Status
		if err := proto.Unmarshal(good.Encode(), &m); err != nil {
			t.Fatal(err)
		}
		change(&m)
		return func() error { _, err := DecodeStatus(encode(&m)); return err }
	}
	for field, attempt := range map[string]func() error{
		"schema: is 2":        transition(func(m *pb.Transition) { m.Schema = 2 }),
		"schema: is 0":        transition(func(m *pb.Transition) { m.Schema = 0 }),
		"user_id: must":       transition(func(m *pb.Transition) { m.UserId = 0 }),
		"version: must":       transition(func(m *pb.Transition) { m.Version = -1 }),
		"at_ms: must":         transition(func(m *pb.Transition) { m.AtMs = 0 }),
		"at_ms: must be in":   transition(func(m *pb.Transition) { m.AtMs = maxMillis + 1 }),
		"last_seen_at_ms: ":   transition(func(m *pb.Transition) { m.LastSeenAtMs = maxMillis + 1 }),
		"last_active_at_ms: ": transition(func(m *pb.Transition) { m.LastActiveAtMs = -1 }),
		"policy_id: must not": transition(func(m *pb.Transition) { m.PolicyId = "a\x00b" }),
		"from: unknown":       transition(func(m *pb.Transition) { m.From = 0 }),
		"to: unknown":         transition(func(m *pb.Transition) { m.To = 4 }),
		"schema: is 3":        status(func(m *pb.Status) { m.Schema = 3 }),
		"user_id: must be":    status(func(m *pb.Status) { m.UserId = -1 }),
		"state: unknown":      status(func(m *pb.Status) { m.State = 9 }),
		"transition: is not ": func() error { _, err := DecodeTransition([]byte{0xff}); return err },
		"status: is not ":     func() error { _, err := DecodeStatus([]byte{0xff}); return err },
	} {
		if err := attempt(); !IsInvalid(err) || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("error %v, want one that begins with %q", err, field)
		}
	}
}

func TestACheckpointThatCannotBeReadIsAnErrorAndNoPanic(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "not base64!", "////", "AAAA"} {
		if _, err := DecodeCheckpoint(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

func FuzzMessagesAreReadAndWrittenAsByTheGeneratedCode(f *testing.F) {
	for _, value := range unusualMessages() {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		want, accepts := transitionByGenerated(value)
		if got, err := DecodeTransition(value); accepts != (err == nil) || accepts && *got != want {
			t.Errorf("transition %x is read as %+v, %v; want %+v, %t", value, got, err, want, accepts)
		} else if accepts && !bytes.Equal(got.Encode(), encodedByGenerated(got)) {
			t.Errorf("%+v is written as %x, want %x", got, got.Encode(), encodedByGenerated(got))
		} else if err != nil && !IsInvalid(err) {
			t.Errorf("error %v is no *FieldError", err)
		}
		wantStatus, accepts := statusByGenerated(value)
		if got, err := DecodeStatus(value); accepts != (err == nil) || accepts && *got != wantStatus {
			t.Errorf("status %x is read as %+v, %v; want %+v, %t", value, got, err, wantStatus, accepts)
		} else if accepts && !bytes.Equal(got.Encode(), statusEncodedByGenerated(got)) {
			t.Errorf("%+v is written as %x, want %x", got, got.Encode(), statusEncodedByGenerated(got))
		}
		_, _ = DecodeCheckpoint(string(value))
	})
}
