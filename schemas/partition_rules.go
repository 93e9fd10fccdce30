package schemas

import (
	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// PartitionRules are what a detector must know of a partition, beside its users, that has lost its snapshot and the
// commit: a record of the topic status.
type PartitionRules struct {
	LogEpoch uint32
	Policy   Policy
	Tenants  []TenantPolicy // those that have or had policies of their own
}

// rulesKey is no key of a user: these begin with a byte 0.
const rulesKey = "partition-rules"

// Key is the record's key.
func (r *PartitionRules) Key() []byte { return []byte(rulesKey) }

// IsRulesKey reports whether a record of the topic status is a PartitionRules, and not of a user.
func IsRulesKey(key []byte) bool { return string(key) == rulesKey }

// Encode is the record's value.
func (r *PartitionRules) Encode() []byte {
	m := &pb.PartitionRules{Schema: messageVersion, LogEpoch: r.LogEpoch, Policy: r.Policy.message()}
	for _, t := range r.Tenants {
		m.Tenants = append(m.Tenants, t.message())
	}
	return encode(m)
}

// DecodePartitionRules reads what Encode writes. Every error is a *FieldError.
func DecodePartitionRules(value []byte) (*PartitionRules, error) {
	var m pb.PartitionRules
	if err := decode("partition rules", value, &m, m.GetSchema); err != nil {
		return nil, err
	}
	r := &PartitionRules{LogEpoch: m.LogEpoch}
	policy, err := policyOf("policy", m.Policy)
	if err != nil {
		return nil, err
	}
	r.Policy = policy
	for _, t := range m.Tenants {
		tenant, err := tenantPolicyOf(t)
		if err != nil {
			return nil, err
		}
		r.Tenants = append(r.Tenants, tenant)
	}
	return r, nil
}
