package schemas

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

var anyBeat = rapid.Custom(func(t *rapid.T) Beat {
	return Beat{
		User:   UserID(rapid.Int64Range(1, maxUserID).Draw(t, "user")),
		Device: DeviceID(rapid.Uint32Range(1, maxDeviceID).Draw(t, "device")),
		Kind:   rapid.SampledFrom(Kinds[:]).Draw(t, "kind"),
		Bye:    rapid.Bool().Draw(t, "bye"),
		Age:    Millis(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, int64(MaxAge))).Draw(t, "age")),
		Idle:   Millis(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, int64(MaxIdle))).Draw(t, "idle")),
	}
})

func TestAFrameReadsBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := contents{
			Gateway:  rapid.StringN(0, 30, MaxGatewayID).Draw(t, "gateway"),
			Sequence: rapid.Uint64().Draw(t, "sequence"), Forwarded: rapid.Bool().Draw(t, "forwarded"),
			Beats: rapid.SliceOfN(anyBeat, 0, 50).Draw(t, "beats"),
		}
		if want.Forwarded {
			want.ForwardedAt = Millis(rapid.Int64Range(0, int64(maxMillis)).Draw(t, "forwarded at"))
		}
		if want.Gateway != "" {
			want.GatewayEpoch = Millis(rapid.Int64Range(1, 1<<62).Draw(t, "epoch"))
			want.Draining = rapid.Bool().Draw(t, "draining")
			want.Begins, want.Ends = rapid.Bool().Draw(t, "begins"), rapid.Bool().Draw(t, "ends")
			for i := range want.Beats {
				b := &want.Beats[i]
				b.Connection = ConnectionID(rapid.OneOf(rapid.Just(uint32(0)), rapid.Uint32()).Draw(t, "connection"))
				b.Lost = !b.Bye && rapid.Bool().Draw(t, "lost")
			}
		}
		if len(want.Beats) == 0 {
			want.Beats = nil
			if want.Leased = want.Gateway != "" && rapid.Bool().Draw(t, "leased"); want.Leased {
				want.Sequence, want.Forwarded, want.ForwardedAt, want.Begins, want.Ends = 0, false, 0, false, false
			}
		}
		head := FrameHead{Gateway: GatewayID(want.Gateway), GatewayEpoch: want.GatewayEpoch, Sequence: want.Sequence,
			Draining: want.Draining, Forwarded: want.Forwarded, ForwardedAt: want.ForwardedAt,
			Begins: want.Begins, Ends: want.Ends, Leased: want.Leased}
		value := AppendFrame([]byte("before"), head, want.Beats)[len("before"):]
		got, err := byHand(value)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("reads as\n%+v, %v\nwant\n%+v", got, err, want)
		}
		if other, ok := byGenerated(value); !ok || !reflect.DeepEqual(other, want) {
			t.Fatalf("the generated decoder reads\n%+v, %v\nwant\n%+v", other, ok, want)
		}
	})
}

func TestEveryEncodingThatProtobufPermitsIsRead(t *testing.T) {
	t.Parallel()
	accepted := 0
	for _, value := range unusualFrames() {
		want, accepts := byGenerated(value)
		got, err := byHand(value)
		if accepts != (err == nil) || accepts && !reflect.DeepEqual(got, want) {
			t.Errorf("%x: reads as\n%+v, %v\nwant\n%+v, accepted %v", value, got, err, want, accepts)
		}
		if accepts {
			accepted++
		}
	}
	if accepted < 15 {
		t.Errorf("only %d of the frames are valid", accepted)
	}
}

func TestWhatIsWrongWithAFrameIsNamed(t *testing.T) {
	t.Parallel()
	encoded := func(m *pb.Frame) []byte {
		m.Version = max(m.Version, 1)
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	one, dev := []int64{1}, []uint32{7}
	for _, c := range []struct {
		name  string
		value []byte
		code  string
		want  string
	}{
		{"garbage", []byte("\xffgarbage"), "malformed", "frame: is not a stillhere.v1.Frame in Protobuf"},
		{"empty", nil, "unsupported_version", "version: is 0, this program reads version 1"},
		{"the future", encoded(&pb.Frame{Version: 2}), "unsupported_version", "version: is 2, this program reads version 1"},
		{"the future with a kind of its own", encoded(&pb.Frame{Version: 2, UserId: one, DeviceId: dev, BeatKind: []pb.BeatKind{9}}),
			"unsupported_version", "version: is 2, this program reads version 1"},
		{"unequal columns", encoded(&pb.Frame{UserId: []int64{1, 2}, DeviceId: dev}), "unequal_columns", "device_id: has 1 rows where user_id has 2"},
		{"a user id of zero", encoded(&pb.Frame{UserId: []int64{1, 0}, DeviceId: []uint32{1, 1}}), "invalid_user_id",
			"user_id[1]: must be between 1 and 9223372036854775807"},
		{"a negative user id", encoded(&pb.Frame{UserId: []int64{-1}, DeviceId: dev}), "invalid_user_id",
			"user_id[0]: must be between 1 and 9223372036854775807"},
		{"a device id of zero", encoded(&pb.Frame{UserId: one, DeviceId: []uint32{0}}), "invalid_device_id",
			"device_id[0]: must be between 1 and 4294967295"},
		{"a beat kind from the future", encoded(&pb.Frame{UserId: one, DeviceId: dev, BeatKind: []pb.BeatKind{3}}), "invalid_argument",
			"beat_kind[0]: unknown kind 3"},
		{"a connection of no process", encoded(&pb.Frame{GatewayId: "gw", UserId: one, DeviceId: dev, ConnectionId: dev}), "invalid_argument",
			"connection_id[0]: goes with gateway_id and gateway_epoch_ms"},
		{"a loss by no process", encoded(&pb.Frame{GatewayId: "gw", UserId: one, DeviceId: dev, BeatKind: []pb.BeatKind{2}}), "invalid_argument",
			"beat_kind[0]: LOST goes with gateway_id and gateway_epoch_ms"},
		{"too few connections", encoded(&pb.Frame{GatewayId: "gw", GatewayEpochMs: 1, UserId: []int64{1, 2}, DeviceId: []uint32{1, 1}, ConnectionId: dev}),
			"unequal_columns", "connection_id: has 1 rows where user_id has 2"},
		{"a replacement by nobody", encoded(&pb.Frame{ReplacementEnds: true}), "invalid_argument",
			"replacement_begins: goes with gateway_id and gateway_epoch_ms"},
		{"an age of more than a day", encoded(&pb.Frame{UserId: one, DeviceId: dev, AgeMs: []uint32{86_400_001}}), "invalid_argument",
			"age_ms[0]: must be at most 86400000 (24 hours)"},
		{"an idleness of more than 30 days", encoded(&pb.Frame{UserId: one, DeviceId: dev, IdleMs: []uint32{2_592_000_001}}), "invalid_argument",
			"idle_ms[0]: must be at most 2592000000 (30 days)"},
		{"a negative epoch", encoded(&pb.Frame{GatewayId: "gw", GatewayEpochMs: -1}), "invalid_argument", "gateway_epoch_ms: must not be negative"},
		{"a long gateway id", encoded(&pb.Frame{GatewayId: strings.Repeat("g", 129), GatewayEpochMs: 1}), "invalid_argument",
			"gateway_id: must have at most 128 bytes"},
		{"nobody draining", encoded(&pb.Frame{Draining: true}), "invalid_argument", "gateway_id: must be set in a draining frame"},
		{"beats in a tick", encoded(&pb.Frame{UserId: one, DeviceId: dev, Tick: true}), "invalid_argument",
			"user_id: a tick or a change of visibility carries no beats"},
		{"a visibility of nobody known", encoded(&pb.Frame{Visibility: &pb.VisibilityChange{Visibility: Nobody}}), "invalid_user_id",
			"visibility.user_id: must be between 1 and 9223372036854775807"},
		{"no visibility said", encoded(&pb.Frame{Visibility: &pb.VisibilityChange{UserId: 1}}), "invalid_argument",
			"visibility.visibility: must be EVERYONE or NOBODY"},
		{"an override with a visibility", encoded(&pb.Frame{Visibility: &pb.VisibilityChange{UserId: 1, Visibility: Nobody, Override: &pb.Override{State: SetAway}}}),
			"invalid_argument", "visibility: must have one of visibility, override, last_seen and denies"},
		{"last seen with a visibility", encoded(&pb.Frame{Visibility: &pb.VisibilityChange{UserId: 1, Visibility: Nobody, LastSeen: SeenNever}}),
			"invalid_argument", "visibility: must have one of visibility, override, last_seen and denies"},
		{"last seen with an override", encoded(&pb.Frame{Visibility: &pb.VisibilityChange{UserId: 1, LastSeen: SeenNever, Override: &pb.Override{}}}),
			"invalid_argument", "visibility: must have one of visibility, override, last_seen and denies"},
		{"an unknown last seen", encoded(&pb.Frame{Visibility: &pb.VisibilityChange{UserId: 1, LastSeen: SeenExactly + 1}}),
			"invalid_argument", "visibility.last_seen: must be EXACT, COARSE or NEVER"},
		{"denies with a visibility", encoded(&pb.Frame{Visibility: &pb.VisibilityChange{UserId: 1, Visibility: Nobody, Denies: &pb.Denies{Add: []int64{2}}}}),
			"invalid_argument", "visibility: must have one of visibility, override, last_seen and denies"},
		{"denies nobody else", encoded(&pb.Frame{Visibility: &pb.VisibilityChange{UserId: 1, Denies: &pb.Denies{}}}),
			"invalid_argument", "visibility.denies: must add and remove 1 to 1000 viewers, not 0"},
		{"denies too many", encoded(&pb.Frame{Visibility: &pb.VisibilityChange{UserId: 1, Denies: &pb.Denies{Remove: make([]int64, 1001)}}}),
			"invalid_argument", "visibility.denies: must add and remove 1 to 1000 viewers, not 1001"},
		{"denies itself", encoded(&pb.Frame{Visibility: &pb.VisibilityChange{UserId: 1, Denies: &pb.Denies{Add: []int64{1}}}}),
			"invalid_argument", "visibility.denies.add: must not name the user"},
		{"denies no user", encoded(&pb.Frame{Visibility: &pb.VisibilityChange{UserId: 1, Denies: &pb.Denies{Remove: []int64{0}}}}),
			"invalid_user_id", "visibility.denies.remove: must be between 1 and 9223372036854775807"},
		{"denies in no order", encoded(&pb.Frame{Visibility: &pb.VisibilityChange{UserId: 1, Denies: &pb.Denies{Add: []int64{3, 2}}}}),
			"invalid_argument", "visibility.denies.add: must ascend"},
		{"denies and does not", encoded(&pb.Frame{Visibility: &pb.VisibilityChange{UserId: 1, Denies: &pb.Denies{Add: []int64{3}, Remove: []int64{3}}}}),
			"invalid_argument", "visibility.denies.remove: must not name a viewer who is added"},
		{"last seen by the policy", encoded(&pb.Frame{Visibility: &pb.VisibilityChange{UserId: 1, LastSeen: SeenByPolicy}}),
			"invalid_argument", "visibility.last_seen: must be EXACT, COARSE or NEVER"},
		{"last seen below zero", encoded(&pb.Frame{Visibility: &pb.VisibilityChange{UserId: 1, LastSeen: -1}}),
			"invalid_argument", "visibility.last_seen: must be EXACT, COARSE or NEVER"},
		{"a long note", encoded(&pb.Frame{Visibility: &pb.VisibilityChange{UserId: 1, Override: &pb.Override{State: SetAway, Note: strings.Repeat("n", 257)}}}),
			"invalid_argument", "visibility.override.note: must have at most 256 bytes"},
		{"an end without an override", encoded(&pb.Frame{Visibility: &pb.VisibilityChange{UserId: 1, Override: &pb.Override{UntilMs: 7}}}),
			"invalid_argument", "visibility.override.state: must be set with an end or a note"},
		{"an erasure of nobody", encoded(&pb.Frame{Erasure: &pb.Erasure{UntilMs: 1}}), "invalid_user_id",
			"erasure.user_id: must be between 1 and 9223372036854775807"},
		{"an erasure without an end", encoded(&pb.Frame{Erasure: &pb.Erasure{UserId: 1}}), "invalid_argument",
			"erasure.until_ms: " + millisRange},
		{"an erasure beside beats", encoded(&pb.Frame{UserId: one, DeviceId: dev, Erasure: &pb.Erasure{UserId: 1, UntilMs: 1}}),
			"invalid_argument", "erasure: an erasure comes alone in its frame"},
		{"a key without a MAC", encoded(&pb.Frame{KeyId: "k", SealedAtMs: 1}), "invalid_argument", "mac: goes with key_id"},
		{"a MAC before other fields", append(encoded(&pb.Frame{KeyId: "k", SealedAtMs: 1, Mac: make([]byte, 16)}), 0x60, 1), "invalid_argument", errMisplacedMAC.Error()},
		{"a short MAC", encoded(&pb.Frame{KeyId: "k", SealedAtMs: 1, Mac: make([]byte, 15)}), "invalid_argument", errMisplacedMAC.Error()},
		{"a long key", encoded(&pb.Frame{KeyId: strings.Repeat("k", 513), Mac: make([]byte, 16)}), "invalid_argument", "key_id: must have at most 512 bytes"},
		{"a sealing time without a key", encoded(&pb.Frame{SealedAtMs: 1}), "invalid_argument", "sealed_at_ms: goes with key_id"},
		{"a signed frame without a sealing time", encoded(&pb.Frame{KeyId: "k", Mac: make([]byte, 16)}), "invalid_argument", "sealed_at_ms: goes with key_id"},
		{"a sealing time after 2262", encoded(&pb.Frame{KeyId: "k", SealedAtMs: math.MaxInt64, Mac: make([]byte, 16)}), "invalid_argument", "sealed_at_ms: " + millisRange},
		{"too many rows", encoded(&pb.Frame{UserId: make([]int64, 4001), DeviceId: make([]uint32, 4001)}), "invalid_argument",
			"user_id: has 4001 rows, at most 4000 are allowed"},
	} {
		_, err := byHand(c.value)
		var bad *FieldError
		if !errors.As(err, &bad) || err.Error() != c.want || bad.Code != c.code {
			t.Errorf("%s: error %v, want %s (%s)", c.name, err, c.want, c.code)
		}
	}
}

func TestAFrameIsWhatItWasLastDecodedFrom(t *testing.T) {
	t.Parallel()
	var f Frame
	for _, g := range goldenFrames() {
		if err := f.Decode(g.value); err != nil {
			t.Fatal(err)
		}
		want := len(g.want.Beats)
		control := g.want.Tick || g.want.Draining || g.want.Leased || g.want.LeaseEnded != 0 || g.want.VisibilityUser != 0 ||
			g.want.ErasedUser != 0 || g.want.Policy != nil || g.want.TenantPolicy != nil
		if f.Rows() != want || f.Tick != g.want.Tick || f.Control() != control {
			t.Errorf("%s: %d rows, tick %v, control %v", g.name, f.Rows(), f.Tick, f.Control())
		}
		for i := range want {
			if f.User(i) != g.want.Beats[i].User {
				t.Errorf("%s: user %d is %d", g.name, i, f.User(i))
			}
		}
	}
}

func TestACursorThatIsCopiedRemembersItsPlace(t *testing.T) {
	t.Parallel()
	beats := []Beat{{User: 1, Device: 1, Kind: Web, Age: 300}, {User: 2, Device: 1, Kind: Web, Age: 5, Idle: 70_000}, {User: 3, Device: 1, Kind: Web}}
	var f Frame
	if err := f.Decode(AppendFrame(nil, FrameHead{}, beats)); err != nil {
		t.Fatal(err)
	}
	rows := f.Beats()
	var b Beat
	rows.Next(&b)
	place := rows
	for range 2 {
		again := place
		for _, want := range beats[1:] {
			if !again.Next(&b) || b != want {
				t.Fatalf("got %+v, want %+v", b, want)
			}
		}
		if again.Next(&b) {
			t.Fatal("there is a row after the last")
		}
	}
}

// thousand is a frame of 1,000 beats such as a gateway writes.
func thousand() []byte {
	beats := make([]Beat, 1000)
	for i := range beats {
		beats[i] = Beat{User: UserID(i*7919 + 1), Device: DeviceID(i + 1), Kind: Mobile, Age: Millis(i), Idle: Millis(i%3) * 100_000}
	}
	return AppendFrame(nil, FrameHead{Gateway: "gw-1", GatewayEpoch: 1, Sequence: 9}, beats)
}

func TestReadingAFrameAllocatesNothing(t *testing.T) { // not parallel: it counts allocations
	value := AppendMAC(AppendSeal(thousand(), "g:0a1b2c3d", 1_763_700_000_000), make([]byte, 32))
	var f Frame
	var b Beat
	seen := 0
	allocations := testing.AllocsPerRun(100, func() {
		if err := f.Decode(value); err != nil {
			t.Fatal(err)
		}
		for rows := f.Beats(); rows.Next(&b); {
			seen++
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
	if seen != 101*1000 {
		t.Errorf("%d rows were read", seen)
	}
}

func TestWritingAFrameIntoSpaceAllocatesNothing(t *testing.T) { // not parallel: it counts allocations
	beats := []Beat{{User: 1, Device: 1, Kind: Web, Age: 300, Bye: true}, {User: 2, Device: 1, Idle: 70_000}}
	space := make([]byte, 0, 1000)
	if n := testing.AllocsPerRun(100, func() {
		AppendFrame(space, FrameHead{Gateway: "gw", GatewayEpoch: 1}, beats)
		AppendTick(space)
		AppendVisibility(space, 1, Nobody)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestABeatTakesAboutSixteenBytes(t *testing.T) {
	t.Parallel()
	if perBeat := float64(len(thousand())) / 1000; perBeat > 20 {
		t.Errorf("takes %.1f bytes", perBeat)
	}
}

func BenchmarkReadAFrameOfAThousandBeats(b *testing.B) {
	value := thousand()
	var f Frame
	var beat Beat
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		if err := f.Decode(value); err != nil {
			b.Fatal(err)
		}
		for rows := f.Beats(); rows.Next(&beat); {
		}
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds()/1e6, "Mbeats/s")
}

func BenchmarkReadAFrameOfOneBeat(b *testing.B) {
	value := AppendFrame(nil, FrameHead{}, []Beat{{User: 1 << 22, Device: 7, Kind: Web, Age: 50, Idle: 40_000}})
	var f Frame
	for b.Loop() {
		if err := f.Decode(value); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadAFrameOfAThousandBeatsByTheGeneratedDecoder(b *testing.B) {
	value := thousand()
	b.SetBytes(int64(len(value)))
	for b.Loop() {
		var m pb.Frame
		if err := proto.Unmarshal(value, &m); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAVersionOfTheFutureIsDistinguishedFromGarbageInAnyEncoding(t *testing.T) {
	t.Parallel()
	// Two pieces of one column: the slow path must name the version, too.
	value := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7)
	for range 2 {
		value = protowire.AppendBytes(protowire.AppendTag(value, 8, protowire.BytesType), []byte{5})
	}
	_, err := byHand(value)
	if err == nil || err.Error() != "version: is 7, this program reads version 1" {
		t.Errorf("error %v", err)
	}
}
