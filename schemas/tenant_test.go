package schemas

import (
	"errors"
	"strings"
	"testing"
)

func anyTenant() Tenant {
	return Tenant{Name: "acme", Note: "paid plan",
		Quotas: TenantQuotas{UsersOnline: 10_000, ConnectionsPerProcess: NoLimit, BeatsPerSecondPerProcess: 700, ChangesPerSecondPerProcess: 20, SubscriptionsPerProcess: 5, ReadsPerSecondPerProcess: 200}}
}

func TestWhatIsWrongWithATenantIsNamed(t *testing.T) {
	t.Parallel()
	for field, break_ := range map[string]func(*Tenant){
		"tenant":                  func(t *Tenant) { t.Name = "a b" },
		"users_online":            func(t *Tenant) { t.Quotas.UsersOnline = -2 },
		"connections_per_process": func(t *Tenant) { t.Quotas.ConnectionsPerProcess = MaxQuota + 1 },
		"history_days":            func(t *Tenant) { t.HistoryDays = MaxHistoryDays + 1 },
		"note":                    func(t *Tenant) { t.Note = strings.Repeat("n", 257) },
	} {
		tenant := anyTenant()
		break_(&tenant)
		var bad *FieldError
		if _, err := DecodeTenant(tenant.Key(), tenant.Encode()); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	tenant := anyTenant()
	if _, err := DecodeTenant([]byte("tenant/other"), tenant.Encode()); !IsInvalid(err) {
		t.Errorf("a record under another tenant's key: %v", err)
	}
}

func TestATenantTakesWhatItDoesNotSayFromAllAndThenFromTheDefaults(t *testing.T) {
	t.Parallel()
	all := Tenant{Name: AllTenants, Quotas: TenantQuotas{UsersOnline: 9, SubscriptionsPerProcess: 8, ReadsPerSecondPerProcess: NoLimit}}
	want := DefaultQuotas
	want.SubscriptionsPerProcess, want.ReadsPerSecondPerProcess = 8, 0
	if got := (Tenant{Name: "acme", Quotas: TenantQuotas{UsersOnline: NoLimit}}).InForce(all, DefaultQuotas).Quotas; got != want {
		t.Errorf("acme has %+v, want %+v", got, want)
	}
	if got := (Tenant{}).InForce(Tenant{Name: AllTenants}, DefaultQuotas).Quotas; got != (TenantQuotas{}) {
		t.Errorf("the default tenant has %+v although nobody set them", got)
	}
	if got := (Tenant{}).InForce(all, DefaultQuotas).Quotas; got.SubscriptionsPerProcess != 8 || got.BeatsPerSecondPerProcess != 0 {
		t.Errorf("the default tenant has %+v, want those of all", got)
	}
}
