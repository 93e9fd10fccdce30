package schemas

import (
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// overrideByGenerated is an override by the rules of transition.proto.
func overrideByGenerated(o Override) (Override, bool) {
	return o, o.State >= 0 && o.State <= Invisible && o.Until >= 0 && o.Until <= maxMillis && len(o.Note) <= MaxNote &&
		!strings.Contains(o.Note, "\x00") && (o.State != 0 || o.Until == 0 && o.Note == "") && o.Automatic >= 0 && o.Automatic <= Online &&
		(o.Automatic != 0) == (o.State == SetAway) && (!o.Hides || o.State == Invisible) &&
		o.Audience >= 0 && (o.LastSeen == 0 || o.LastSeen == SeenCoarsely || o.LastSeen == SeenNever)
}

// transitionByGenerated reads value with the generated decoder and the rules of
// transition.proto; false where either refuses it.
func transitionByGenerated(value []byte) (Transition, bool) {
	value, err := Unframed(value)
	if err != nil {
		return Transition{}, false
	}
	var m pb.Transition
	if proto.Unmarshal(value, &m) != nil || m.Schema != 1 || m.UserId < 1 || m.Version < 1 || m.AtMs < 1 ||
		m.From < Offline || m.From > Online || m.To < Offline || m.To > Online || m.AtMs > maxMillis || m.LastSeenAtMs < 0 ||
		m.LastSeenAtMs > maxMillis || m.LastActiveAtMs < 0 || m.LastActiveAtMs > maxMillis || strings.Contains(m.PolicyId, "\x00") ||
		m.Cause == Erased && (m.ErasedUntilMs < 1 || m.ErasedUntilMs > maxMillis) ||
		(Name{Tenant: m.Tenant, Text: m.Name}).checkOptional() != nil {
		return Transition{}, false
	}
	over, ok := overrideByGenerated(Override{m.Override, Millis(m.OverrideUntilMs), m.OverrideNote, m.Automatic, m.OverrideHides, m.LastSeen,
		Version(m.AudienceVersion)})
	ok = ok && (len(encode(m.Denies)) == 0 || m.Cause == AudienceSet && m.AudienceVersionBefore >= 0 &&
		m.AudienceVersionBefore < m.AudienceVersion && deniesByGenerated(m.Denies, m.UserId))
	return Transition{
		User: UserID(m.UserId), From: m.From, To: m.To, At: Millis(m.AtMs),
		LastSeen: Millis(m.LastSeenAtMs), LastActive: Millis(m.LastActiveAtMs), Cause: m.Cause, Device: DeviceID(m.DeviceId),
		Kinds: SetOfKinds(m.DeviceKinds...).WithActiveOf(SetOfKinds(m.ActiveKinds...)), Visibility: KnownVisibility(m.Visibility), Version: Version(m.Version), Policy: m.PolicyId,
		LeftOut: m.LeftOut, ErasedUntil: Millis(m.ErasedUntilMs), Name: Name{Tenant: m.Tenant, Text: m.Name}, Override: over,
		Denies: Denies(encode(m.Denies)), AudienceBefore: Version(m.AudienceVersionBefore),
	}, ok
}

// deniesByGenerated reports whether m is what frame.proto allows of the user.
func deniesByGenerated(m *pb.Denies, user int64) bool {
	all := append(slices.Clone(m.Add), m.Remove...)
	right := len(all) > 0 && len(all) <= MaxDenies && slices.IsSorted(m.Add) && slices.IsSorted(m.Remove)
	slices.Sort(all)
	return right && all[0] > 0 && !slices.Contains(all, user) && len(slices.Compact(all)) == len(m.Add)+len(m.Remove)
}

func encodedByGenerated(t *Transition) []byte { return encode(t.message()) }

func statusByGenerated(value []byte) (Status, bool) {
	value, err := Unframed(value)
	if err != nil {
		return Status{}, false
	}
	var m pb.Status
	if proto.Unmarshal(value, &m) != nil || m.Schema != 1 || m.UserId < 1 || m.State < Offline || m.State > Online ||
		m.ErasedVersion < 0 || m.ErasedVersion > m.Version {
		return Status{}, false
	}
	over, ok := overrideByGenerated(Override{m.Override, Millis(m.OverrideUntilMs), m.OverrideNote, m.Automatic, m.OverrideHides, m.LastSeen,
		Version(m.AudienceVersion)})
	return Status{
		User: UserID(m.UserId), State: m.State, Since: Millis(m.SinceMs), LastSeen: Millis(m.LastSeenAtMs),
		LastActive: Millis(m.LastActiveAtMs), Kinds: SetOfKinds(m.DeviceKinds...).WithActiveOf(SetOfKinds(m.ActiveKinds...)), Visibility: KnownVisibility(m.Visibility),
		Version:     Version(m.Version),
		UnsureSince: Millis(m.UnsureSinceMs), UnsureEnded: m.UnsureEnded,
		ShownAt: Millis(m.ShownAtMs), ErasedVersion: Version(m.ErasedVersion), WithheldUntil: Millis(m.WithheldUntilMs),
		Name: Name{Tenant: m.Tenant, Text: m.Name}, NamedUntil: Millis(m.NamedUntilMs), Override: over,
	}, ok
}

func statusEncodedByGenerated(s *Status) []byte {
	return encode(&pb.Status{
		Schema: messageVersion, UserId: int64(s.User), State: s.State, SinceMs: int64(s.Since),
		LastSeenAtMs: int64(s.LastSeen), LastActiveAtMs: int64(s.LastActive), DeviceKinds: s.Kinds.Append(nil), ActiveKinds: s.Kinds.Active().Append(nil),
		Visibility: KnownVisibility(s.Visibility), Version: int64(s.Version),
		UnsureSinceMs: int64(s.UnsureSince), UnsureEnded: s.UnsureEnded,
		ShownAtMs: int64(s.ShownAt), ErasedVersion: int64(s.ErasedVersion), WithheldUntilMs: int64(s.WithheldUntil),
		Tenant: s.Name.Tenant, Name: s.Name.Text, NamedUntilMs: int64(s.NamedUntil),
		Override: s.Override.State, OverrideUntilMs: int64(s.Override.Until), OverrideNote: s.Override.Note,
		Automatic: s.Override.Automatic, OverrideHides: s.Override.Hides, LastSeen: s.Override.LastSeen, AudienceVersion: int64(s.Override.Audience),
	})
}

// unusualMessages are transitions and statuses in every encoding that Protobuf
// permits, and broken ones.
func unusualMessages() [][]byte {
	transition, status := anyTransition(), anyStatus()
	transition.LeftOut = 3
	extreme := Transition{User: math.MaxInt64, From: Offline, To: Online, At: 1, LastSeen: maxMillis, Cause: -1,
		Device: math.MaxUint32, Kinds: SetOfKinds(Kinds[:]...), Version: math.MaxInt64}
	beyond := extreme
	beyond.LastSeen, beyond.LastActive = -1, math.MinInt64
	messages := [][]byte{nil, {0x08, 1}, {0x08, 2}, {0xff}, extreme.Encode(), beyond.Encode()}
	named := status
	named.Name, named.NamedUntil = Name{Tenant: "acme", Text: "ann"}, 1
	named.Override = Override{State: SetAway, Until: 7, Note: "at lunch", Automatic: Online, LastSeen: SeenCoarsely}
	denies := transition
	denies.Cause, denies.Denies, denies.Override.Audience = AudienceSet, someDenies(), 9
	for _, value := range [][]byte{transition.Encode(), status.Encode(), named.Encode(), denies.Encode()} {
		with := func(more ...byte) { messages = append(messages, append(value[:len(value):len(value)], more...)) }
		messages = append(messages, value, value[:len(value)-1])
		with(0x58, 5)                            // a kind of a transition, unpacked
		with(0x38, 5)                            // of a status
		with(0x5a, 3, 0xff, 0x01, 99)            // kinds from the future, packed
		with(0x3a, 3, 0xff, 0x01, 99)            //
		with(0x5a, 1, 0x80)                      // ends within a varint
		with(0x20, 0x83, 0x00)                   // over-long
		with(0x20, 0x83, 0x80, 0x80, 0x80, 0x10) // beyond 32 bits
		with(0x72, 1, 'x')                       // another policy: the later counts
		with(0x72, 1, 0xff)                      // no UTF-8
		with(0x12, 1, 0xff)                      //
		with(0xfa, 0x01, 0)                      // denies nobody, or nobody else
		with(0xfa, 0x01, 1, 0xff)                // no denies
		with(0xfa, 0x01, 9, 9, 1, 0, 0, 0, 0, 0, 0, 0)
		with(0x10, 9)                               // wrong type
		with(0x1a, 1, 9)                            //
		with(0xfa, 0x3e, 1, 'x')                    // from the future
		with(0xa3, 0x06, 0xa4, 0x06)                // groups
		with(0x21, 1, 2, 3, 4, 5, 6, 7, 8)          // fixed
		with(protowire.AppendVarint(nil, 1<<32)...) // a field number that there is none of
	}
	return messages
}
