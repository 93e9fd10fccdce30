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

// ParsePolicy reads settings in YAML or JSON under their names, e.g. "online_ttl: 45s"; the others are those of base.
// file gives the name. ofTenant: it is that of a tenant, which cannot have all settings.
func ParsePolicy(file string, text []byte, base liveness.Settings, ofTenant bool) (Policy, error) {
	p := Policy{Name: strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), Settings: base}
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
	if err := yaml.Unmarshal(text, &document); err != nil || len(document.Content) == 0 || document.Content[0].Tag == "!!null" {
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
		i := slices.Index(names, strings.ReplaceAll(pair[0].Value, "-", "_"))
		if i < 0 {
			faults = append(faults, fmt.Errorf("line %d: %s is no setting of a policy: these are %s", pair[0].Line, pair[0].Value, strings.Join(names, ", ")))
			continue
		}
		if slices.Contains(c.Names, names[i]) {
			faults = append(faults, fmt.Errorf("line %d: %s is there twice", pair[0].Line, pair[0].Value))
		}
		c.Names = append(c.Names, names[i])
		// Settings and the fields of Policy have one order.
		if err := decode(pair[1], reflect.ValueOf(&c.Policy).Elem().Field(i).Addr().Interface()); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", names[i], err))
		}
	}
	return c, errors.Join(faults...)
}

// decode reads a value. A duration may be 0, as for a setting that is off.
func decode(node *yaml.Node, into any) (err error) {
	form := "whole number"
	switch into := into.(type) {
	case *time.Duration:
		if *into, err = time.ParseDuration(node.Value); err != nil {
			return fmt.Errorf("%q is no duration: it must be like 45s, 5m or 0", node.Value)
		}
		return nil
	case *bool:
		form = "switch: it must be true or false"
	}
	if node.Tag == "!!null" || node.Decode(into) != nil {
		return fmt.Errorf("%q is no %s", node.Value, form)
	}
	return nil
}
