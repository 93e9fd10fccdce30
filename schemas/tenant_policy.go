package schemas

import (
	"strings"

	"google.golang.org/protobuf/proto"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// MaxTenantPolicies is how many tenants of a pipeline may have policies of their own, those included
// whose policies were removed: detectors remember them.
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
	"idle_after", "bye_debounce", "announce_devices", "forbid_hiding", "forbid_invisible", "coarse_last_seen"}

// For is the policy by which the users of t are judged in a pipeline with the policy p.
func (p Policy) For(t *Policy) Policy {
	if t == nil {
		return p
	}
	p.HeartbeatInterval, p.HeartbeatJitter = t.HeartbeatInterval, t.HeartbeatJitter
	p.OnlineTTL, p.OfflineDebounce, p.AwayTTL = t.OnlineTTL, t.OfflineDebounce, t.AwayTTL
	p.IdleAfter, p.ByeDebounce, p.AnnounceDevices = t.IdleAfter, t.ByeDebounce, t.AnnounceDevices
	p.ForbidHiding, p.ForbidInvisible, p.CoarseLastSeen = t.ForbidHiding, t.ForbidInvisible, t.CoarseLastSeen
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

// policyKey begins the keys of the records with the policies of tenants in the topic pipeline.
const policyKey = "tenant-policy/"

// Key is the key of the records with the policy of a tenant.
func (t TenantPolicy) Key() []byte { return []byte(policyKey + t.Tenant) }

// TenantOfPolicyKey is the tenant to whose policy a record with the key belongs; false: it is the record
// of something else.
func TenantOfPolicyKey(key []byte) (tenant string, ok bool) {
	return strings.CutPrefix(string(key), policyKey)
}
