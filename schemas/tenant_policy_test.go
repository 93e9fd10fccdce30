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
	want := &TenantPolicies{Tenant: "acme", Born: NewVersion(1, 5, 0), Policies: []TenantPolicyInForce{
		{Version: NewVersion(1, 5, 0), At: 1_763_700_000_000, Policy: &policy}, {Version: NewVersion(2, 700, 0), At: 1_763_700_060_000}}}
	got, err := DecodeTenantPolicies(golden(t, "tenant-policies-v1", want.Encode()))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("reads as %+v, %v", got, err)
	}
	if tenant, ok := TenantOfPolicyKey(want.Key()); !ok || tenant != "acme" || !IsPolicyKey(want.Key()) || IsPolicyKey(UserID(42).Key()) {
		t.Errorf("the key %q is of tenant %q", want.Key(), tenant)
	}
}

func TestAStatusSaysSinceWhenTheTenantsPolicyCounts(t *testing.T) {
	t.Parallel()
	want := Status{User: 42, State: Offline, Visibility: Everyone, Version: NewVersion(1, 900, 0) - 1, Name: Name{"acme", "ann"},
		JudgedFrom: NewVersion(1, 800, 0), JudgedAt: 1_763_700_060_000, Lapsed: Lapsed{NewVersion(1, 10, 0), NewVersion(1, 700, 0), "acme"}}
	got, err := DecodeStatus(golden(t, "status-v1-judged", want.Encode()))
	if err != nil || *got != want {
		t.Errorf("reads as %+v, %v", got, err)
	}
	if want.Tombstone() || want.Nameless() || !want.Absent() {
		t.Error("who is judged by a tenant's policy needs a status")
	}
}

func TestACheckpointNamesTheTenantsWithPolicies(t *testing.T) {
	t.Parallel()
	policy := anyPolicy()
	acme, other := TenantPolicy{"acme", &policy}.Mark(), TenantPolicy{Tenant: "other"}.Mark()
	c := Checkpoint{LogEpoch: 1, Tenants: []TenantMark{acme, other}}
	got, err := DecodeCheckpoint(c.Encode())
	if err != nil || !reflect.DeepEqual(got.Tenants, c.Tenants) {
		t.Fatalf("reads as %+v, %v", got, err)
	}
	if !acme.Of("acme") || acme.Of("other") || acme == (TenantPolicy{Tenant: "acme"}.Mark()) {
		t.Error("a mark does not tell tenants or policies apart")
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

func FuzzDecodeTenantPolicies(f *testing.F) {
	policy := anyPolicy()
	f.Add((&TenantPolicies{Tenant: "acme", Policies: []TenantPolicyInForce{{Version: 1, At: 1, Policy: &policy}}}).Encode())
	f.Add(TenantPolicy{"acme", &policy}.Encode())
	f.Fuzz(func(t *testing.T, value []byte) {
		if p, err := DecodeTenantPolicies(value); err == nil {
			if again, err := DecodeTenantPolicies(p.Encode()); err != nil || !reflect.DeepEqual(again, p) {
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
