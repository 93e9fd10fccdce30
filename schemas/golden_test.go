package schemas

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// golden returns the bytes that testdata/golden/<name>.hex holds. A file that is
// there is never edited: what was published once must be readable for ever. For a
// new message, STILLHERE_NEW_GOLDEN=1 writes the file that is missing.
func golden(t *testing.T, name string, now []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".hex")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("STILLHERE_NEW_GOLDEN") != "" {
		text = []byte(hex.EncodeToString(now) + "\n")
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	value, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if !bytes.Equal(value, now) {
		t.Errorf("%s holds\n%x\nthis program writes\n%x", path, value, now)
	}
	return value
}

type goldenFrame struct {
	name  string
	value []byte
	want  contents
}

func goldenFrames() []goldenFrame {
	const at = Millis(1_763_700_000_000)
	head := FrameHead{Gateway: "gw-1", GatewayEpoch: at, Sequence: 300}
	gateway := contents{Gateway: "gw-1", GatewayEpoch: at, Sequence: 300}
	beats := []Beat{
		{User: 1, Device: 7, Kind: Mobile},
		{User: 1 << 40, Device: 1 << 31, Kind: Web, Age: 250, Idle: 86_400_000},
		{User: 1<<63 - 1, Device: 1<<32 - 1, Kind: Other, Bye: true, Age: MaxAge, Idle: MaxIdle},
	}
	full, draining, forwarded := gateway, gateway, gateway
	full.Beats, draining.Draining = beats, true
	forwarded.Forwarded, forwarded.Beats = true, beats[:1]
	forwardedAt := forwarded
	forwardedAt.ForwardedAt = at
	policy, jitter := anyPolicy(), anyPolicy()
	withNames := full
	withNames.Names = map[int]Name{0: {"", "6f9619ff-8b86-d011-b42d-00c04fc964ff"}, 2: {"acme", "@ann:b.c"}}
	named := AppendNamedRow(AppendFrame(nil, head, beats), 0, withNames.Names[0])
	named = AppendNamedRow(named, 2, withNames.Names[2])
	jitter.HeartbeatJitter = 2 * time.Second
	signed := func(frame []byte, want contents, key string) ([]byte, contents) {
		frame = AppendSeal(frame, key, at)
		want.KeyID, want.MAC, want.Signed, want.SealedAt = key, "0123456789abcdef", string(frame), at
		return AppendMAC(frame, []byte(want.MAC+" and the rest")), want
	}
	signedBeats, ofGateway := signed(AppendFrame(nil, head, beats), full, "g:0a1b2c3d:acme")
	signedHide, ofControl := signed(AppendVisibility(nil, 42, Nobody), contents{VisibilityUser: 42, Visibility: Nobody}, "c:0a1b2c3d")
	lunch := Override{State: DoNotDisturb, Until: at, Note: "à table"}
	connections := gateway
	connections.Begins, connections.Ends = true, true
	connections.Beats = []Beat{beats[0], {User: 2, Device: 8, Kind: Web, Connection: 1, Idle: 60_000},
		{User: 3, Device: 9, Kind: Web, Connection: 1<<32 - 1, Lost: true, Age: 20}, {User: 4, Device: 1, Kind: Bot, Connection: 5, Bye: true}}
	return []goldenFrame{
		{"frame-v1-one-beat", AppendFrame(nil, FrameHead{}, beats[:1]), contents{Beats: beats[:1]}},
		{"frame-v1-beats", AppendFrame(nil, head, beats), full},
		{"frame-v1-connections", AppendFrame(nil, FrameHead{Gateway: "gw-1", GatewayEpoch: at, Sequence: 300, Begins: true, Ends: true}, connections.Beats), connections},
		{"frame-v1-alive", AppendFrame(nil, head, nil), gateway},
		{"frame-v1-draining", AppendFrame(nil, FrameHead{Gateway: "gw-1", GatewayEpoch: at, Sequence: 300, Draining: true}, nil), draining},
		{"frame-v1-forwarded", AppendFrame(nil, FrameHead{Gateway: "gw-1", GatewayEpoch: at, Sequence: 300, Forwarded: true}, beats[:1]), forwarded},
		{"frame-v1-forwarded-at", AppendFrame(nil, FrameHead{Gateway: "gw-1", GatewayEpoch: at, Sequence: 300, Forwarded: true, ForwardedAt: at}, beats[:1]), forwardedAt},
		{"frame-v1-leased", AppendFrame(nil, FrameHead{Gateway: "gw-1", GatewayEpoch: at, Leased: true, Draining: true}, nil),
			contents{Gateway: "gw-1", GatewayEpoch: at, Leased: true, Draining: true}},
		{"frame-v1-lease-ended", AppendFrame(nil, FrameHead{Gateway: "gw-1", GatewayEpoch: at, LeaseEnded: 4000}, nil),
			contents{Gateway: "gw-1", GatewayEpoch: at, LeaseEnded: 4000}},
		{"frame-v1-tick", AppendTick(nil), contents{Tick: true}},
		{"frame-v1-visibility", AppendVisibility(nil, 42, Nobody), contents{VisibilityUser: 42, Visibility: Nobody}},
		{"frame-v1-erasure", AppendErasure(nil, 42, Name{}, 1_766_700_000_000, 0, false), contents{ErasedUser: 42, ErasedUntil: 1_766_700_000_000}},
		{"frame-v1-erasure-forwarded", AppendErasure(nil, 42, Name{}, 1, 0, true), contents{ErasedUser: 42, ErasedUntil: 1, Forwarded: true}},
		{"frame-v1-erasure-withheld", AppendErasure(nil, 42, Name{}, 1_766_700_000_000, 1_765_700_000_000, false),
			contents{ErasedUser: 42, ErasedUntil: 1_766_700_000_000, WithheldUntil: 1_765_700_000_000}},
		{"frame-v1-named", named, withNames},
		{"frame-v1-override", AppendOverride(nil, 42, lunch, Name{"acme", "ann@example.org"}),
			contents{VisibilityUser: 42, VisibilityName: Name{"acme", "ann@example.org"}, Override: &lunch}},
		{"frame-v1-override-over", AppendOverride(nil, 42, Override{}, Name{}), contents{VisibilityUser: 42, Override: new(Override)}},
		{"frame-v1-last-seen", AppendLastSeen(nil, 42, SeenCoarsely, Name{"acme", "ann@example.org"}),
			contents{VisibilityUser: 42, VisibilityName: Name{"acme", "ann@example.org"}, LastSeen: SeenCoarsely}},
		{"frame-v1-denies", AppendDenies(nil, 42, someDenies(), Name{"acme", "ann@example.org"}),
			contents{VisibilityUser: 42, VisibilityName: Name{"acme", "ann@example.org"}, Denies: someDenies()}},
		{"frame-v1-visibility-named", AppendNamedVisibility(nil, 42, Nobody, Name{"acme", "ann@example.org"}),
			contents{VisibilityUser: 42, Visibility: Nobody, VisibilityName: Name{"acme", "ann@example.org"}}},
		{"frame-v1-policy", AppendPolicy(nil, policy), contents{Policy: &policy}},
		{"frame-v1-tenant-policy", AppendTenantPolicy(nil, TenantPolicy{"acme", &policy}), contents{TenantPolicy: &TenantPolicy{"acme", &policy}}},
		{"frame-v1-tenant-policy-removed", AppendTenantPolicy(nil, TenantPolicy{Tenant: "acme"}), contents{TenantPolicy: &TenantPolicy{Tenant: "acme"}}},
		{"frame-v1-signed-beats", signedBeats, ofGateway},
		{"frame-v1-signed-visibility", signedHide, ofControl},
		{"frame-v1-policy-jitter", AppendPolicy(nil, jitter), contents{Policy: &jitter}},
	}
}

func TestFramesOfEveryVersionReadAndWriteAsPublished(t *testing.T) {
	t.Parallel()
	for _, g := range goldenFrames() {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			got, err := byHand(golden(t, g.name, g.value))
			if err != nil || !reflect.DeepEqual(got, g.want) {
				t.Errorf("reads as\n%+v, %v\nwant\n%+v", got, err, g.want)
			}
		})
	}
}

func someDenies() Denies {
	d, _ := NewDenies("", 42, []UserID{9, 1 << 40, 7, 9}, []UserID{8})
	return d
}

func anyTransition() Transition {
	return Transition{User: 42, From: Online, To: Away, At: 1_763_700_045_000, LastSeen: 1_763_700_000_000,
		LastActive: 1_763_699_990_000, Cause: GatewayLost, Device: 7, Kinds: SetOfKinds(Mobile, Web), Visibility: Nobody,
		Version: NewVersion(1, 1000, 2), Policy: "0123456789ab"}
}

func anyStatus() Status {
	return Status{User: 42, State: Away, Since: 1_763_700_045_000, LastSeen: 1_763_700_000_000, LastActive: 1_763_699_990_000,
		Kinds: SetOfKinds(Desktop, Bot), Visibility: Nobody, Version: NewVersion(1, 1000, 2)}
}

func anyCheckpoint() Checkpoint {
	return Checkpoint{LogEpoch: 3, TopicID: [16]byte{0: 1, 15: 16}, LogTime: 1_763_700_100_000,
		Snapshot: SnapshotName{ID: 1<<63 + 5, Next: 900, Chunks: 3, Sum: [16]byte{0: 7, 15: 9}}}
}

func anyPolicy() Policy {
	return Policy{HeartbeatInterval: 5 * time.Second, OnlineTTL: 15 * time.Second, OfflineDebounce: 30 * time.Second, AwayTTL: time.Minute,
		IdleAfter: 2 * time.Minute, ByeDebounce: time.Second, AllowedLateness: 250 * time.Millisecond, GatewaySilence: 11 * time.Second,
		ReconnectWindow: 31 * time.Second, CohortRate: 7, CohortTotalRate: 84, AnnounceDevices: true, MaxDevices: 16, FlapBurst: 10,
		FlapInterval: 3 * time.Second, BreakerPercent: 40, BreakerLimit: 5 * time.Minute}
}

func fullCheckpoint() Checkpoint {
	c := anyCheckpoint()
	c.Bases = []EpochBase{{LogEpoch: 2, Offset: 0}, {LogEpoch: 3, Offset: 1 << 41}}
	c.LossyAt = 1_763_700_001_000
	c.Policy = PolicyInForce{Offset: 950, At: 1_763_700_002_000, Policy: anyPolicy()}
	return c
}
