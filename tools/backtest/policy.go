package backtest

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

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

// ParsePolicy reads settings in YAML under their names, e.g. "online_ttl: 45s"; the others have
// their defaults. file gives the name. ofTenant: it is that of a tenant, which cannot have all settings.
func ParsePolicy(file string, text []byte, ofTenant bool) (Policy, error) {
	p := Policy{Name: strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), Settings: liveness.Defaults()}
	change, err := parseChange(text)
	if err == nil && ofTenant {
		err = policy.CheckNames(change.Names)
	}
	if err == nil {
		p.Settings = change.To(p.Settings)
		err = p.Settings.Validate()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return p, err
}

// parseChange reads settings. Their names may have dashes, as flags and configuration files do.
func parseChange(text []byte) (c policy.Change, err error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil || len(document.Content) == 0 {
		return c, err
	}
	settings := document.Content[0]
	if settings.Kind != yaml.MappingNode {
		return c, errors.New("must be a list of names and values, such as \"online_ttl: 45s\"")
	}
	var names []string
	for _, s := range liveness.Defaults().Settings() {
		names = append(names, s.Name)
	}
	var faults []error
	for pair := range slices.Chunk(settings.Content, 2) {
		// Settings and the fields of Policy have one order.
		i := slices.Index(names, strings.ReplaceAll(pair[0].Value, "-", "_"))
		if i < 0 {
			faults = append(faults, fmt.Errorf("line %d: %s is no setting of a policy: these are %s", pair[0].Line, pair[0].Value, strings.Join(names, ", ")))
			continue
		}
		if slices.Contains(c.Names, names[i]) {
			faults = append(faults, fmt.Errorf("line %d: %s is there twice", pair[0].Line, pair[0].Value))
		}
		c.Names = append(c.Names, names[i])
		faults = append(faults, decode(pair[1], reflect.ValueOf(&c.Policy).Elem().Field(i).Addr().Interface()))
	}
	return c, errors.Join(faults...)
}

// decode reads a value. A duration may be 0, as for a setting that is off.
func decode(node *yaml.Node, into any) (err error) {
	d, ok := into.(*time.Duration)
	if !ok {
		return node.Decode(into)
	}
	if *d, err = time.ParseDuration(node.Value); err != nil {
		return fmt.Errorf("line %d: %q is no duration: it must be like 45s, 5m or 0", node.Line, node.Value)
	}
	return nil
}
