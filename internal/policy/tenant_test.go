package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

func TestATenantHasOnlyTheSettingsThatConcernOneUser(t *testing.T) {
	t.Parallel()
	if err := CheckNames(schemas.TenantSettings); err != nil {
		t.Error(err)
	}
	err := CheckNames([]string{"online_ttl", "cohort_rate", "gateway_silence"})
	if err == nil || !strings.HasPrefix(err.Error(), `cohort_rate, gateway_silence: `) {
		t.Error(err)
	}
}

func TestCheckpointsTellWhereThePolicyOfATenantIsInForce(t *testing.T) {
	t.Parallel()
	p := schemas.DefaultPolicy()
	own, removed := schemas.TenantPolicy{Tenant: "acme", Policy: &p}, schemas.TenantPolicy{Tenant: "acme"}
	all := map[int32]*schemas.Checkpoint{0: {Tenants: []schemas.TenantMark{own.Mark()}}, 1: {Tenants: []schemas.TenantMark{removed.Mark()}}, 2: {}}
	for want, tenant := range map[int32]schemas.TenantPolicy{1: own, 2: removed} {
		if n, full := ofTenant(all, tenant); n != want || full {
			t.Errorf("%v is in force in %d partitions, want %d; full %v", tenant, n, want, full)
		}
	}
	for i := range schemas.MaxTenantPolicies {
		all[2].Tenants = append(all[2].Tenants, schemas.TenantPolicy{Tenant: fmt.Sprint(i)}.Mark())
	}
	if _, full := ofTenant(all, own); !full {
		t.Error("one more tenant fits into a checkpoint that is full")
	}
}
