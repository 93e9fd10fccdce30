package schemas

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// contents is everything a frame says, however it was encoded.
type contents struct {
	Gateway                           string
	GatewayEpoch                      Millis
	Sequence                          uint64
	Draining, Tick, Behind, Forwarded bool
	Begins, Ends, Leased              bool
	LeaseEnded                        Millis
	ForwardedAt                       Millis
	VisibilityUser                    UserID
	Visibility                        Visibility
	ErasedUser                        UserID
	ErasedUntil                       Millis
	WithheldUntil                     Millis
	VisibilityName                    Name
	Override                          *Override
	LastSeen                          LastSeen
	Denies                            Denies
	Policy                            *Policy
	TenantPolicy                      *TenantPolicy
	Beats                             []Beat
	Names                             map[int]Name
	KeyID, MAC, Signed                string
	SealedAt                          Millis
}

// byGenerated reads value with the generated decoder and the rules that
// frame.proto states; false where either refuses it.
func byGenerated(value []byte) (contents, bool) {
	value, err := Unframed(value)
	if err != nil {
		return contents{}, false
	}
	var m pb.Frame
	if proto.Unmarshal(value, &m) != nil || m.Version != 1 {
		return contents{}, false
	}
	rows := len(m.UserId)
	ok := rows <= 4000 && len(m.DeviceId) == rows && len(m.GatewayId) <= 128
	for _, column := range []int{len(m.DeviceKind), len(m.BeatKind), len(m.AgeMs), len(m.IdleMs), len(m.ConnectionId)} {
		ok = ok && (column == rows || column == 0)
	}
	ok = ok && !slices.ContainsFunc(m.UserId, func(id int64) bool { return id < 1 })
	ok = ok && !slices.Contains(m.DeviceId, 0)
	ok = ok && !slices.ContainsFunc(m.BeatKind, func(k pb.BeatKind) bool { return k < 0 || k > 2 })
	process := m.GatewayId != "" && m.GatewayEpochMs != 0
	ok = ok && (process || !m.ReplacementBegins && !m.ReplacementEnds && !slices.ContainsFunc(m.ConnectionId, func(c uint32) bool { return c != 0 }))
	ok = ok && (process || !slices.Contains(m.BeatKind, pb.BeatKind_BEAT_KIND_LOST))
	lease := m.Leased || m.LeaseEndedMs != 0
	ok = ok && (!lease || process && rows == 0 && !m.Tick && !m.Forwarded && m.Visibility == nil && m.Erasure == nil &&
		m.Policy == nil && m.TenantPolicy == nil && !m.ReplacementBegins && !m.ReplacementEnds && m.Sequence == 0)
	ok = ok && (m.LeaseEndedMs == 0 || !m.Leased && !m.Draining)
	ok = ok && !slices.ContainsFunc(m.AgeMs, func(ms uint32) bool { return ms > 24*3600*1000 })
	ok = ok && !slices.ContainsFunc(m.IdleMs, func(ms uint32) bool { return ms > 30*24*3600*1000 })
	ok = ok && (m.GatewayId == "" || m.GatewayEpochMs >= 0)
	ok = ok && (m.GatewayId != "" || !m.Draining)
	ok = ok && (rows == 0 || !m.Tick && m.Visibility == nil) && (m.Tick || !m.Behind)
	ok = ok && m.ForwardedAtMs >= 0 && m.ForwardedAtMs <= int64(maxMillis) && (m.Forwarded || m.ForwardedAtMs == 0)
	var inForce *Policy
	if m.Policy != nil {
		p, err := policyOf("policy", m.Policy)
		ok = ok && err == nil && rows == 0 && !m.Tick && m.Visibility == nil && m.GatewayId == ""
		inForce = &p
	}
	var ofTenant *TenantPolicy
	if m.TenantPolicy != nil {
		p, err := tenantPolicyOf(m.TenantPolicy)
		ok = ok && err == nil && rows == 0 && !m.Tick && m.Visibility == nil && m.Policy == nil && m.GatewayId == ""
		ofTenant = &p
	}
	if e := m.Erasure; e != nil {
		ok = ok && m.TenantPolicy == nil && rows == 0 && !m.Tick && m.Visibility == nil && m.Policy == nil && m.GatewayId == "" &&
			e.UserId > 0 && e.UntilMs > 0 && e.UntilMs <= maxMillis && e.WithheldUntilMs >= 0 && e.WithheldUntilMs <= e.UntilMs
	}
	var over *Override
	if v := m.Visibility; v != nil {
		one := 0
		for _, is := range []bool{v.Override != nil, v.Visibility != 0, v.LastSeen != 0, v.Denies != nil} {
			if is {
				one++
			}
		}
		ok = ok && v.UserId > 0 && one == 1 && v.Visibility >= 0 && v.Visibility <= Nobody && v.LastSeen >= 0 && v.LastSeen <= SeenNever &&
			(v.Denies == nil || deniesByGenerated(v.Denies, v.UserId))
		if o := v.Override; o != nil {
			over = &Override{State: o.State, Until: Millis(o.UntilMs), Note: o.Note}
			ok = ok && o.State >= 0 && o.State <= Invisible && o.UntilMs >= 0 && o.UntilMs <= maxMillis && len(o.Note) <= MaxNote &&
				!strings.Contains(o.Note, "\x00") && (o.State != 0 || o.UntilMs == 0 && o.Note == "")
		}
	}
	names, last := map[int]Name(nil), -1
	for _, n := range m.Named {
		name := Name{n.Tenant, n.Name}
		ok = ok && int64(n.Row) > int64(last) && int64(n.Row) < int64(rows) && name.Check("") == nil
		if names == nil {
			names = make(map[int]Name)
		}
		last = int(n.Row)
		names[last] = name
	}
	hider := Name{m.Visibility.GetTenant(), m.Visibility.GetName()}
	ok = ok && (hider == Name{} || hider.Check("") == nil)
	ok = ok && len(m.KeyId) <= 512 && (m.KeyId == "") == (len(m.Mac) == 0) &&
		(m.KeyId == "") == (m.SealedAtMs == 0) && m.SealedAtMs >= 0 && m.SealedAtMs <= int64(maxMillis)
	signed, wellPlaced := value, true
	if len(m.Mac) > 0 {
		signed, wellPlaced = beforeTheMAC(value)
	}
	ok = ok && wellPlaced
	if !ok {
		return contents{}, false
	}
	c := contents{Gateway: m.GatewayId, GatewayEpoch: Millis(m.GatewayEpochMs), Sequence: m.Sequence,
		Draining: m.Draining, Tick: m.Tick, Behind: m.Behind, Forwarded: m.Forwarded, ForwardedAt: Millis(m.ForwardedAtMs),
		Begins: m.ReplacementBegins, Ends: m.ReplacementEnds, Leased: m.Leased, LeaseEnded: Millis(m.LeaseEndedMs),
		VisibilityUser: UserID(m.Visibility.GetUserId()), Visibility: m.Visibility.GetVisibility(), Policy: inForce, TenantPolicy: ofTenant,
		ErasedUser: UserID(m.Erasure.GetUserId()), ErasedUntil: Millis(m.Erasure.GetUntilMs()),
		WithheldUntil: Millis(m.Erasure.GetWithheldUntilMs()), VisibilityName: hider, Override: over, LastSeen: m.Visibility.GetLastSeen(), Denies: Denies(encode(m.Visibility.GetDenies())), Names: names}
	for i := range m.UserId {
		b := Beat{User: UserID(m.UserId[i]), Device: DeviceID(m.DeviceId[i]), Kind: Other}
		if len(m.DeviceKind) > 0 && m.DeviceKind[i] > 0 && int(m.DeviceKind[i]) <= len(Kinds) {
			b.Kind = m.DeviceKind[i]
		}
		if len(m.BeatKind) > 0 {
			b.Bye, b.Lost = m.BeatKind[i] == pb.BeatKind_BEAT_KIND_BYE, m.BeatKind[i] == pb.BeatKind_BEAT_KIND_LOST
		}
		if len(m.AgeMs) > 0 {
			b.Age = Millis(m.AgeMs[i])
		}
		if len(m.IdleMs) > 0 {
			b.Idle = Millis(m.IdleMs[i])
		}
		if len(m.ConnectionId) > 0 {
			b.Connection = ConnectionID(m.ConnectionId[i])
		}
		c.Beats = append(c.Beats, b)
	}
	c.KeyID, c.MAC, c.SealedAt = m.KeyId, string(m.Mac), Millis(m.SealedAtMs)
	if len(m.Mac) > 0 {
		c.Signed = string(signed)
	}
	return c, true
}

// beforeTheMAC is value up to the field mac, if that is the last one, there once, and written in 19 bytes.
func beforeTheMAC(value []byte) ([]byte, bool) {
	var fields []int // where they begin
	macs := 0
	for at := 0; at < len(value); {
		fields = append(fields, at)
		number, kind, n := protowire.ConsumeField(value[at:])
		if number == 24 && kind == protowire.BytesType {
			macs++
		}
		at += n
	}
	last := fields[len(fields)-1]
	ok := macs == 1 && len(value)-last == 19 && value[last] == 0xc2 && value[last+1] == 0x01 && value[last+2] == 16
	return value[:last], ok
}

// usedFor are frames that a Frame was used for before.
var usedFor = [][]byte{AppendErasure(nil, 42, Name{"acme", "a"}, 7, 5, true), AppendVisibility(nil, 42, Nobody), AppendOverride(nil, 42, Override{State: SetAway, Until: 7}, Name{}),
	AppendLastSeen(nil, 42, SeenNever, Name{}),
	AppendDenies(nil, 42, someDenies(), Name{}),
	encode(&pb.Frame{Version: 1, Visibility: &pb.VisibilityChange{UserId: 42, Denies: &pb.Denies{Add: []int64{3, 2}}}}),
	AppendFrame(nil, FrameHead{Gateway: "g", GatewayEpoch: 1, LeaseEnded: 1}, nil),
	AppendFrame(nil, FrameHead{Gateway: "g", GatewayEpoch: 1, Leased: true}, nil),
	AppendPolicy(nil, DefaultPolicy()), AppendTenantPolicy(nil, TenantPolicy{Tenant: "acme"}), encode(&pb.Frame{Version: 1, GatewayId: "g", GatewayEpochMs: 1, Sequence: 1, UserId: []int64{1}, DeviceId: []uint32{1}, DeviceKind: []pb.DeviceKind{1},
		BeatKind: []pb.BeatKind{1}, AgeMs: []uint32{1}, IdleMs: []uint32{1}, Draining: true, Tick: true, Forwarded: true, ForwardedAtMs: 1, SealedAtMs: 1,
		Named: []*pb.NamedRow{{Tenant: "t", Name: "n"}}, KeyId: "k", Mac: make([]byte, 16)})}

// byHand reads value with Frame.
func byHand(value []byte) (contents, error) {
	var f Frame
	for _, before := range usedFor {
		f.Decode(before) // nothing of it stays, whether it is refused or not
	}
	if err := f.Decode(value); err != nil {
		return contents{}, err
	}
	c := contents{Gateway: string(f.Gateway), GatewayEpoch: f.GatewayEpoch, Sequence: f.Sequence, Draining: f.Draining,
		Tick: f.Tick, Behind: f.Behind, Forwarded: f.Forwarded, ForwardedAt: f.ForwardedAt, Begins: f.Begins, Ends: f.Ends,
		Leased: f.Leased, LeaseEnded: f.LeaseEnded, VisibilityUser: f.VisibilityUser, Visibility: f.Visibility,
		Policy: f.Policy, TenantPolicy: f.TenantPolicy,
		ErasedUser: f.ErasedUser, ErasedUntil: f.ErasedUntil, WithheldUntil: f.WithheldUntil,
		VisibilityName: f.VisibilityName, Override: f.Override, LastSeen: f.LastSeen, Denies: f.Denies,
		KeyID: string(f.KeyID), MAC: string(f.MAC), Signed: string(f.Signed), SealedAt: f.SealedAt}
	rows := f.Beats()
	for b := (Beat{}); rows.Next(&b); {
		c.Beats = append(c.Beats, b)
	}
	var named NamedRow
	for names := f.Names(); names.Next(&named); {
		if c.Names == nil {
			c.Names = make(map[int]Name)
		}
		c.Names[named.Row] = Name{string(named.Tenant), string(named.Name)}
	}
	return c, nil
}
