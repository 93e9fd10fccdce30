package policy

import (
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
