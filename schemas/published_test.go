package schemas

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// published fails unless want, which this program writes as value, is in the golden file, and is read from there.
func published[T any](t *testing.T, name string, want T, value []byte, decode func([]byte) (T, error)) {
	t.Helper()
	if got, err := decode(golden(t, name, value)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s reads as %+v, %v", name, got, err)
	}
}

// keyed is a decoder of the values of records with a key.
func keyed[T any](key []byte, decode func(key, value []byte) (T, error)) func([]byte) (T, error) {
	return func(value []byte) (T, error) { return decode(key, value) }
}

func TestTransitionsReadAndWriteAsPublished(t *testing.T) {
	t.Parallel()
	plain, leftOut, named, mixed, over, coarse, denies := anyTransition(), anyTransition(), anyTransition(), anyTransition(), anyTransition(), anyTransition(), anyTransition()
	over.From, over.Cause, over.Override = Away, OverrideSet, Override{State: SetAway, Until: 1_763_800_000_000, Note: "à table", Automatic: Online}
	coarse.Cause, coarse.Override.LastSeen = LastSeenSet, SeenCoarsely
	denies.From, denies.Cause, denies.Denies, denies.Override.Audience, denies.AudienceBefore = Away, AudienceSet, someDenies(), denies.Version, 5
	mixed.To, mixed.Cause, mixed.Kinds = Online, DevicesChanged, mixed.Kinds.WithActiveOf(SetOfKinds(Web))
	leftOut.Cause, leftOut.LeftOut, named.Name = DeviceEvicted, 40, ann
	erased := Transition{User: 42, From: Online, To: Offline, At: 1_763_700_000_000, Cause: Erased, Visibility: Everyone,
		Version: NewVersion(1, 77, 0), Policy: "0123456789ab", ErasedUntil: 1_766_700_000_000}
	for name, want := range map[string]*Transition{"transition-v1": &plain, "transition-v1-left-out": &leftOut,
		"transition-v1-erased": &erased, "transition-v1-named": &named, "transition-v1-active-kinds": &mixed, "transition-v1-override": &over,
		"transition-v1-last-seen": &coarse, "transition-v1-denies": &denies} {
		published(t, name, want, want.Encode(), DecodeTransition)
	}
	ended := &Transition{User: plain.User, Version: plain.Version, At: plain.At}
	for name, want := range map[string]*FanoutJob{
		"fanout-job-v1-split": {Kind: SplitJob, Transition: &plain},
		"fanout-job-v1-range": {Kind: RangeJob, Transition: &plain, After: 1000, Through: 1 << 40, Chunk: 7, Chunks: 200},
		"fanout-job-v1-stop":  {Kind: StopJob, Transition: ended},
	} {
		published(t, name, want, want.Encode(), DecodeFanoutJob)
	}
	for name, want := range map[string]*Delivery{
		"delivery-v1":       {Transition: &plain, Recipients: []UserID{1, 2, 300, 1 << 40, 1<<63 - 1}, Chunk: 7},
		"delivery-v1-named": {Transition: &named, Recipients: []UserID{7, 9}, Names: []string{"ben", ""}},
	} {
		published(t, name, want, want.Encode(), DecodeDelivery)
	}
}

func TestStatusesReadAndWriteAsPublished(t *testing.T) {
	t.Parallel()
	whole := anyStatus()
	for name, want := range map[string]*Status{
		"status-v1": &whole,
		"status-v1-shown": {User: 42, State: Offline, Visibility: Everyone, Version: NewVersion(1, 1000, 2),
			ShownAt: 1_763_700_045_000},
		"status-v1-erased": {User: 42, State: Offline, Visibility: Everyone, Version: NewVersion(1, 1000, 2),
			ErasedVersion: NewVersion(1, 900, 0), WithheldUntil: 1_765_700_000_000},
		"status-v1-unsure": {User: 42, State: Online, Since: 1_763_700_000_000, LastSeen: 1_763_700_030_000,
			Kinds: SetOfKinds(Mobile), Visibility: Everyone, Version: NewVersion(1, 77, 0), UnsureSince: 1_763_700_040_000},
		"status-v1-sure-again": {User: 42, State: Online, Since: 1_763_700_000_000, LastSeen: 1_763_700_090_000,
			Kinds: SetOfKinds(Mobile), Visibility: Everyone, Version: NewVersion(1, 99, 0), UnsureEnded: true},
		"status-v1-active-kinds": {User: 42, State: Online, Visibility: Everyone, Version: NewVersion(1, 77, 0), Since: 5, LastSeen: 6,
			Kinds: SetOfKinds(Mobile, Desktop).WithActiveOf(SetOfKinds(Desktop))},
		"status-v1-invisible": {User: 42, State: Offline, Visibility: Nobody, Version: NewVersion(1, 77, 0), Override: Override{State: Invisible, Hides: true}},
		"status-v1-last-seen": {User: 42, State: Offline, Visibility: Everyone, Version: NewVersion(1, 77, 0), Override: Override{LastSeen: SeenNever}},
		"status-v1-denies":    {User: 42, State: Offline, Visibility: Everyone, Version: NewVersion(1, 77, 0), Override: Override{Audience: NewVersion(1, 77, 0)}},
		"status-v1-named": {User: 42, State: Online, Visibility: Everyone, Version: NewVersion(1, 77, 0), Since: 5, LastSeen: 6,
			LastActive: 7, Name: Name{Text: "ann"}},
	} {
		if published(t, name, want, want.Encode(), DecodeStatus); want.Tombstone() {
			t.Errorf("%s is a tombstone", name)
		}
	}
	one := anySeen()
	one.Counts, one.Users, one.Devices = nil, one.Users[:1], one.Devices[:1]
	for name, want := range map[string]*Seen{"seen-v1": anySeen(), "seen-v1-one-device-each": one, "seen-v1-tenants": seenOfTenants()} {
		published(t, name, want, want.Encode(), DecodeSeen)
	}
}

func TestOtherMessagesReadAndWriteAsPublished(t *testing.T) {
	t.Parallel()
	policy, plain, full := anyPolicy(), anyCheckpoint(), fullCheckpoint()
	for name, want := range map[string]*Checkpoint{"checkpoint-v1": &plain, "checkpoint-v1-policies": &full} {
		published(t, name, want, []byte(want.Encode()), func(text []byte) (*Checkpoint, error) { return DecodeCheckpoint(string(text)) })
	}
	erased := []UserID{42, 1<<63 - 1}
	published(t, "erasures-v1", erased, ErasureRecords(erased)[0].Value, DecodeErasures)
	follow := Follow{User: 1 << 40, Follower: 42}
	published(t, "follow-v1", follow, follow.Encode(), keyed(golden(t, "follow-key-v1", follow.Key()), DecodeFollow))
	named := Follow{User: 42, Follower: 7, Names: [2]Name{ann, {"acme", "ben"}}}
	published(t, "follow-v1-named", named, named.Encode(), keyed(named.Key(), DecodeFollow))
	user := UserName{User: 42, Name: ann}
	published(t, "user-name-v1", user, user.Encode(), DecodeUserName)
	pipeline := PipelineIdentity{"text", "0123456789abcdef"}
	published(t, "pipeline-identity-v1", pipeline, pipeline.Encode(), DecodePipelineIdentity)
	kept := PolicyRecord{Policy: policy, Since: 1_763_700_000_000}
	published(t, "policy-record-v1", kept, kept.Encode(), keyed(kept.Key(), DecodePolicyRecord))
	for name, want := range map[string]TenantPolicy{"tenant-policy-v1": {"acme", &policy}, "tenant-policy-v1-removed": {"", nil}} {
		published(t, name, want, want.Encode(), DecodeTenantPolicy)
	}
	rules := &PartitionRules{LogEpoch: 3, Policy: policy, Tenants: []TenantPolicy{{"acme", &policy}, {Tenant: "other"}}}
	published(t, "partition-rules-v1", rules, rules.Encode(), DecodePartitionRules)
	tenant := anyTenant()
	published(t, "tenant-v1", tenant, tenant.Encode(), keyed([]byte("tenant/acme"), DecodeTenant))
	tenant.HistoryDays = 30
	published(t, "tenant-v1-history", tenant, tenant.Encode(), keyed([]byte("tenant/acme"), DecodeTenant))
	beats := &pb.HeartbeatsRequest{GatewayId: "gw-1", GatewayEpoch: 1_763_700_000_000, Beats: []*pb.Beat{
		{UserId: 1, DeviceId: 7, DeviceKind: Mobile, AgeMs: 5, IdleMs: 6}, {UserId: 2, DeviceId: 9, Bye: true},
	}}
	var got pb.HeartbeatsRequest
	if err := proto.Unmarshal(golden(t, "heartbeats-request", encode(beats)), &got); err != nil || !proto.Equal(&got, beats) {
		t.Errorf("reads as %v, %v", &got, err)
	}
}

func TestRecordsAreToldApartByTheirKeys(t *testing.T) {
	t.Parallel()
	rules, policy := PartitionRules{}, TenantPolicy{Tenant: "acme"}
	if !IsRulesKey(rules.Key()) || IsRulesKey(UserID(42).Key()) {
		t.Error("the keys of rules and of users are not told apart")
	}
	if tenant, ok := TenantOfPolicyKey(policy.Key()); !ok || tenant != "acme" {
		t.Errorf("the key %q is of tenant %q", policy.Key(), tenant)
	}
	if _, ok := TenantOfKey([]byte("identity")); ok {
		t.Error("the record of the identity is taken for a tenant's")
	}
	for _, name := range []string{AllTenants, ""} {
		empty := Tenant{Name: name}
		if got, err := DecodeTenant(empty.Key(), empty.Encode()); err != nil || got != empty {
			t.Errorf("%q reads as %+v, %v", name, got, err)
		}
	}
	if r := ErasureRecords([]UserID{42})[0]; r.Topic != Erasures || r.Key != nil {
		t.Errorf("the record of an erasure is %+v", r)
	}
	removed := Follow{User: 1 << 40, Follower: 42, Removed: true}
	if got, err := DecodeFollow(removed.Key(), removed.Encode()); err != nil || got != removed {
		t.Errorf("the tombstone of a follow reads as %+v, %v", got, err)
	}
}

func TestMessagesThatContradictThemselvesAreRefused(t *testing.T) {
	t.Parallel()
	erased, status := anyTransition(), anyStatus()
	erased.Cause, status.ErasedVersion = Erased, status.Version+1
	kept := PolicyRecord{Policy: anyPolicy(), Since: -1}
	_, endless := DecodeTransition(erased.Encode())
	_, after := DecodeStatus(status.Encode())
	_, negative := DecodePolicyRecord(kept.Key(), kept.Encode())
	kept.Since = 1
	_, other := DecodePolicyRecord([]byte(DefaultPolicy().ID()), kept.Encode())
	for what, err := range map[string]error{"an erasure without an end": endless, "an erasure after the status": after,
		"a negative time": negative, "a policy under the id of another one": other} {
		if !IsInvalid(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// readsBack fails unless a message that can be read is written as one that is equal.
func readsBack[T any](t *testing.T, value []byte, decode func([]byte) (T, error), encode func(T) []byte) {
	t.Helper()
	got, err := decode(value)
	if err != nil {
		if !IsInvalid(err) {
			t.Fatalf("refused with %v, which is no *FieldError", err)
		}
		return
	}
	if again, err := decode(encode(got)); err != nil || !reflect.DeepEqual(again, got) {
		t.Fatalf("%+v is written and read as %+v, %v", got, again, err)
	}
}

func FuzzEveryMessageReadsBackAsItWasWritten(f *testing.F) {
	files, err := filepath.Glob("testdata/golden/*.hex")
	if err != nil || len(files) < 40 {
		f.Fatal(files, err)
	}
	policy := anyPolicy()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		value, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil {
			f.Fatal(file, err)
		}
		for _, key := range [][]byte{anyTenant().Key(), []byte(policy.ID()), Follow{User: 1 << 40, Follower: 42}.Key()} {
			f.Add(key, value)
		}
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		readsBack(t, value, DecodeErasures, func(users []UserID) []byte { return ErasureRecords(users)[0].Value })
		readsBack(t, value, DecodeFanoutJob, (*FanoutJob).Encode)
		readsBack(t, value, DecodeDelivery, (*Delivery).Encode)
		readsBack(t, value, DecodeUserName, UserName.Encode)
		readsBack(t, value, DecodePartitionRules, (*PartitionRules).Encode)
		readsBack(t, value, DecodeTenantPolicy, TenantPolicy.Encode)
		readsBack(t, value, keyed(key, DecodeTenant), Tenant.Encode)
		readsBack(t, value, keyed(key, DecodePolicyRecord), PolicyRecord.Encode)
		for _, value := range [][]byte{value, nil} {
			readsBack(t, value, keyed(key, DecodeFollow), Follow.Encode)
			if got, err := DecodeFollow(key, value); err == nil && !bytes.Equal(got.Key(), key) {
				t.Fatalf("%+v has the key %x, not %x", got, got.Key(), key)
			}
		}
		readsBack(t, value, DecodeSeen, (*Seen).Encode)
		if s, err := DecodeSeen(value); err == nil {
			devices := 0
			for _, u := range s.Users {
				devices += u.Devices
			}
			if devices != len(s.Devices) {
				t.Fatalf("users have %d devices, the record %d", devices, len(s.Devices))
			}
		}
	})
}
