package schemas

import (
	"strings"
	"testing"
	"time"
)

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
