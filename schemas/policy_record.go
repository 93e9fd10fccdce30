package schemas

import pb "github.com/stillhere/stillhere/schemas/stillherev1"

// PolicyRecord is a record of the topic policies: a policy that was in force, so that its id says for ever what
// the settings were. Of a tenant with a policy of its own it is the pipeline's policy with the tenant's settings.
type PolicyRecord struct {
	Policy Policy
	Since  Millis // log time at which it came into force first; 0: when the pipeline began
}

// Key is the key of the record: the id of the policy.
func (p PolicyRecord) Key() []byte { return []byte(p.Policy.ID()) }

// Encode is the value of the record.
func (p PolicyRecord) Encode() []byte {
	return encode(&pb.PolicyRecord{Schema: messageVersion, Policy: p.Policy.message(), SinceMs: int64(p.Since)})
}

// DecodePolicyRecord reads a record. A policy with settings that this program does not know does not have the id
// of the key. Every error is a *FieldError.
func DecodePolicyRecord(key, value []byte) (PolicyRecord, error) {
	var m pb.PolicyRecord
	if err := decode("policy record", value, &m, m.GetSchema); err != nil {
		return PolicyRecord{}, err
	}
	policy, err := policyOf("policy", m.Policy)
	if err != nil {
		return PolicyRecord{}, err
	}
	if m.SinceMs < 0 {
		return PolicyRecord{}, Invalid("since_ms", "must not be negative")
	}
	if policy.ID() != string(key) {
		return PolicyRecord{}, Invalid("policy", "must have the id of the key")
	}
	return PolicyRecord{Policy: policy, Since: Millis(m.SinceMs)}, nil
}
