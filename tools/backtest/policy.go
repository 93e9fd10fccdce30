package backtest

import (
	"strings"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/policy"
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
		err = policy.CheckNames(change.Names)
	}
	if err == nil {
		p.Settings = change.To(p.Settings)
		err = p.Settings.Validate()
	}
	return p, err
}
