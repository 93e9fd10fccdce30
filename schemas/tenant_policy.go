package schemas

import (
	"hash/fnv"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// MaxTenantPolicies is how many tenants of a pipeline may have policies of their own, those included
// whose policies were removed: detectors remember them, and checkpoints name them.
const MaxTenantPolicies = 64

// TenantPolicy is the policy of one tenant. Of Policy only the settings that TenantSettings names count; nil:
// the tenant goes by the pipeline's policy.
type TenantPolicy struct {
	Tenant string // empty: the default tenant
	Policy *Policy
}

// TenantSettings are the settings in which the policy of a tenant may differ: those that concern one user.
// The others concern gateways and partitions, which tenants share.
var TenantSettings = []string{"heartbeat_interval", "heartbeat_jitter", "online_ttl", "offline_debounce", "away_ttl",
	"idle_after", "bye_debounce", "announce_devices"}

// For is the policy by which the users of t are judged in a pipeline with the policy p.
func (p Policy) For(t *Policy) Policy {
	if t == nil {
		return p
	}
	p.HeartbeatInterval, p.HeartbeatJitter = t.HeartbeatInterval, t.HeartbeatJitter
	p.OnlineTTL, p.OfflineDebounce, p.AwayTTL = t.OnlineTTL, t.OfflineDebounce, t.AwayTTL
	p.IdleAfter, p.ByeDebounce, p.AnnounceDevices = t.IdleAfter, t.ByeDebounce, t.AnnounceDevices
	return p
}

func (t TenantPolicy) message() *pb.TenantPolicy {
	m := &pb.TenantPolicy{Schema: messageVersion, Tenant: t.Tenant}
	if t.Policy != nil {
		m.Policy = t.Policy.message()
	}
	return m
}

// Encode is the value of a record of the topic pipeline that tells gateways the policy. Its key is Key.
func (t TenantPolicy) Encode() []byte { return encode(t.message()) }

// DecodeTenantPolicy reads what Encode writes. Every error is a *FieldError.
func DecodeTenantPolicy(value []byte) (TenantPolicy, error) {
	var m pb.TenantPolicy
	if err := decode("tenant policy", value, &m, m.GetSchema); err != nil {
		return TenantPolicy{}, err
	}
	return tenantPolicyOf(&m)
}

func tenantPolicyOf(m *pb.TenantPolicy) (TenantPolicy, error) {
	t := TenantPolicy{Tenant: m.Tenant}
	if err := supported(m.Schema); err != nil {
		return t, err
	}
	if err := CheckTenant("tenant_policy.tenant", m.Tenant); err != nil {
		return t, err
	}
	if m.Policy != nil {
		p, err := policyOf("tenant_policy.policy", m.Policy)
		if err != nil {
			return t, err
		}
		t.Policy = &p
	}
	return t, nil
}

// AppendTenantPolicy appends the frame by which t comes into force in the partition it is written to.
// The policy must be valid.
func AppendTenantPolicy(dst []byte, t TenantPolicy) []byte {
	dst = appendVarint(dst, fieldVersion, FrameVersion)
	value := t.Encode()
	return append(appendColumn(dst, fieldTenantPolicy, uint64(len(value))), value...)
}

// takeTenantPolicy reads the policy of a tenant in a frame.
func (f *Frame) takeTenantPolicy(v []byte) error {
	var m pb.TenantPolicy
	if err := proto.Unmarshal(v, &m); err != nil {
		return notProtobuf()
	}
	t, err := tenantPolicyOf(&m)
	if err != nil {
		return err
	}
	f.TenantPolicy = &t
	return nil
}

// policyKey begins the keys of the records with the policies of tenants, in the topics status and
// pipeline. No key of a user has its length: the shortest is longer than 8 bytes.
const policyKey = "tenant-policy/"

// Key is the key of the records with the policy of a tenant.
func (t TenantPolicy) Key() []byte { return []byte(policyKey + t.Tenant) }

// TenantOfPolicyKey is the tenant to whose policy a record with the key belongs; false: it is the record
// of something else.
func TenantOfPolicyKey(key []byte) (tenant string, ok bool) {
	return strings.CutPrefix(string(key), policyKey)
}

// IsPolicyKey is TenantOfPolicyKey without the tenant. It does not allocate.
func IsPolicyKey(key []byte) bool {
	return len(key) >= len(policyKey) && string(key[:len(policyKey)]) == policyKey
}

// TenantPolicies are the policies that one partition had for a tenant, the newest last: a record of the
// topic status.
type TenantPolicies struct {
	Tenant   string
	Policies []TenantPolicyInForce
	Born     Version // names the record with the tenant's first policy
}

// TenantPolicyInForce is a policy of a tenant, the record that brought it, and the log time at it.
type TenantPolicyInForce struct {
	Version Version
	At      Millis
	Policy  *Policy // nil: that of the pipeline
}

// Key is the record's key.
func (t *TenantPolicies) Key() []byte { return TenantPolicy{Tenant: t.Tenant}.Key() }

// Encode is the record's value.
func (t *TenantPolicies) Encode() []byte {
	m := &pb.TenantPolicies{Schema: messageVersion, Tenant: t.Tenant, BornVersion: int64(t.Born)}
	for _, p := range t.Policies {
		in := &pb.TenantPolicyInForce{Version: int64(p.Version), AtMs: int64(p.At)}
		if p.Policy != nil {
			in.Policy = p.Policy.message()
		}
		m.Policies = append(m.Policies, in)
	}
	return encode(m)
}

// DecodeTenantPolicies reads what Encode writes. Every error is a *FieldError.
func DecodeTenantPolicies(value []byte) (*TenantPolicies, error) {
	var m pb.TenantPolicies
	if err := decode("tenant policies", value, &m, m.GetSchema); err != nil {
		return nil, err
	}
	t := &TenantPolicies{Tenant: m.Tenant, Born: Version(m.BornVersion)}
	if err := CheckTenant("tenant", m.Tenant); err != nil {
		return nil, err
	}
	for _, p := range m.Policies {
		in := TenantPolicyInForce{Version: Version(p.GetVersion()), At: Millis(p.GetAtMs())}
		if p.GetPolicy() != nil {
			policy, err := policyOf("policies", p.GetPolicy())
			if err != nil {
				return nil, err
			}
			in.Policy = &policy
		}
		t.Policies = append(t.Policies, in)
	}
	if len(t.Policies) == 0 {
		return nil, Invalid("policies", "must not be empty")
	}
	return t, nil
}

// TenantMark is what a checkpoint says of the policy of a tenant.
type TenantMark uint64

// Mark is the TenantMark of t.
func (t TenantPolicy) Mark() TenantMark {
	mark := uint64(tenantHash(t.Tenant)) << 32
	if t.Policy != nil {
		h := fnv.New32a()
		_, _ = h.Write([]byte(DefaultPolicy().For(t.Policy).ID())) // never fails
		mark |= max(1, uint64(h.Sum32()))
	}
	return TenantMark(mark)
}

// Of reports whether m may be the mark of the tenant: two tenants may have one hash.
func (m TenantMark) Of(tenant string) bool { return uint32(m>>32) == tenantHash(tenant) }

func tenantHash(tenant string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(tenant)) // never fails
	return h.Sum32()
}
