package schemas

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestPoliciesOfTenantsReadAndWriteAsPublished(t *testing.T) {
	t.Parallel()
	policy := anyPolicy()
	for name, want := range map[string]TenantPolicy{
		"tenant-policy-v1":         {"acme", &policy},
		"tenant-policy-v1-removed": {"", nil},
	} {
		if got, err := DecodeTenantPolicy(golden(t, name, want.Encode())); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s reads as %+v, %v", name, got, err)
		}
	}
	want := &PartitionRules{LogEpoch: 3, Policy: policy, Tenants: []TenantPolicy{{"acme", &policy}, {Tenant: "other"}}}
	got, err := DecodePartitionRules(golden(t, "partition-rules-v1", want.Encode()))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("reads as %+v, %v", got, err)
	}
	if !IsRulesKey(want.Key()) || IsRulesKey(UserID(42).Key()) {
		t.Error("the keys of rules and of users are not told apart")
	}
	if tenant, ok := TenantOfPolicyKey(want.Tenants[0].Key()); !ok || tenant != "acme" {
		t.Errorf("the key %q is of tenant %q", want.Tenants[0].Key(), tenant)
	}
}

func TestOnlySettingsOfOneUserAreThoseOfATenant(t *testing.T) {
	t.Parallel()
	pipeline, tenant := DefaultPolicy(), anyPolicy()
	both := pipeline.For(&tenant)
	theirs := tenant.Settings()
	for i, s := range both.Settings() {
		own := pipeline.Settings()[i]
		for _, name := range TenantSettings {
			if name == s.Name {
				own = theirs[i]
			}
		}
		if s != own {
			t.Errorf("%s is %s, want %s", s.Name, s.Value, own.Value)
		}
	}
	if pipeline.For(nil) != pipeline {
		t.Error("a tenant without a policy has another than the pipeline")
	}
}

func TestWhatIsWrongWithThePolicyOfATenantIsNamed(t *testing.T) {
	t.Parallel()
	short := DefaultPolicy()
	short.OnlineTTL = time.Second
	for field, frame := range map[string][]byte{
		"tenant_policy.policy": AppendTenantPolicy(nil, TenantPolicy{"acme", &short}),
		"tenant_policy.tenant": AppendTenantPolicy(nil, TenantPolicy{Tenant: "a b"}),
		"tenant_policy":        append(AppendTenantPolicy(nil, TenantPolicy{Tenant: "acme"}), AppendTick(nil)[2:]...),
	} {
		var f Frame
		if err := f.Decode(frame); err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func FuzzDecodePoliciesOfTenants(f *testing.F) {
	policy := anyPolicy()
	f.Add((&PartitionRules{LogEpoch: 1, Policy: policy, Tenants: []TenantPolicy{{"acme", &policy}}}).Encode())
	f.Add(TenantPolicy{"acme", &policy}.Encode())
	f.Fuzz(func(t *testing.T, value []byte) {
		if p, err := DecodePartitionRules(value); err == nil {
			if again, err := DecodePartitionRules(p.Encode()); err != nil || !reflect.DeepEqual(again, p) {
				t.Errorf("%+v reads back as %+v, %v", p, again, err)
			}
		}
		if p, err := DecodeTenantPolicy(value); err == nil {
			if again, err := DecodeTenantPolicy(p.Encode()); err != nil || !reflect.DeepEqual(again, p) {
				t.Errorf("%+v reads back as %+v, %v", p, again, err)
			}
		}
	})
}
