package backtest

import (
	"slices"
	"strings"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/schemas"
)

// Policy is settings under a name.
type Policy struct {
	Name     string
	Settings liveness.Settings
	// AsLogged: it is what was in force, which the log changes. There are no Settings.
	AsLogged bool
}

// ParsePolicy reads words as those of "stillhere policy set"; the other settings are those of base. ofTenant: it is that of
// a tenant, which cannot have all settings.
func ParsePolicy(base liveness.Settings, ofTenant bool, words ...string) (Policy, error) {
	p := Policy{Name: strings.Join(words, ","), Settings: base}
	change, err := policy.Parse(words...)
	if err == nil && ofTenant {
		asked, _ := policy.Parse(slices.DeleteFunc(slices.Clone(words), func(word string) bool { return !strings.Contains(word, "=") })...)
		err = policy.CheckNames(asked.Names) // of a preset what a tenant may have counts
		change.Names = slices.DeleteFunc(change.Names, func(name string) bool { return !slices.Contains(schemas.TenantSettings, name) })
	}
	if err == nil {
		p.Settings = change.To(p.Settings)
		err = p.Settings.Validate()
	}
	return p, err
}
