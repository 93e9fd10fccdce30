package policy

import (
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestATenantHasOnlyTheSettingsThatConcernOneUser(t *testing.T) {
	t.Parallel()
	must.Do(t, CheckNames(schemas.TenantSettings))
	err := CheckNames([]string{"online_ttl", "cohort_rate", "gateway_silence"})
	if err == nil || !strings.HasPrefix(err.Error(), `cohort_rate, gateway_silence: `) {
		t.Error(err)
	}
}
