package policy

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/schemas"
)

// Parse reads what an operator writes: presets ("default" is one, of all settings) and NAME=VALUE, such as
// online_ttl=45s. A value overrides the presets. Names may have dashes.
func Parse(words ...string) (c Change, err error) {
	var all faults.List
	var given []string
	for _, word := range words {
		if _, _, is := strings.Cut(word, "="); is {
			continue
		}
		preset, ok := PresetOf(word)
		if !ok {
			all.Add(fmt.Errorf("%q is neither a preset nor NAME=VALUE: presets are %s", word, strings.Join(presetNames(), ", ")))
			continue
		}
		c = Change{Policy: preset.To(c.Policy), Names: append(c.Names, preset.Names...)}
	}
	for _, word := range words {
		name, value, is := strings.Cut(word, "=")
		if !is {
			continue
		}
		name = strings.ReplaceAll(name, "-", "_")
		all.If(slices.Contains(given, name), "%s is there twice", name)
		given = append(given, name)
		all.Add(c.set(name, value))
	}
	// The heartbeat interval of a preset belongs to its time to live.
	if slices.Contains(given, "online_ttl") && !slices.Contains(given, "heartbeat_interval") {
		c.Names = slices.DeleteFunc(c.Names, func(name string) bool { return name == "heartbeat_interval" })
	}
	return c, all.Err()
}

// set asks for a value of a setting. A duration may be 0, as for a setting that is off.
func (c *Change) set(name, value string) (err error) {
	var names []string
	for _, s := range c.Policy.Settings() {
		names = append(names, s.Name)
	}
	i := slices.Index(names, name)
	if i < 0 {
		return fmt.Errorf("%s is no setting of a policy: these are %s", name, strings.Join(names, ", "))
	}
	// Settings and the fields of Policy have one order.
	form := ""
	switch field := reflect.ValueOf(&c.Policy).Elem().Field(i).Addr().Interface().(type) {
	case *time.Duration:
		form = "duration: it must be like 45s, 5m or 0"
		*field, err = time.ParseDuration(value)
	case *int:
		form = "whole number"
		*field, err = strconv.Atoi(value)
	case *bool:
		form = "switch: it must be true or false"
		if *field = value == "true"; !*field && value != "false" {
			err = strconv.ErrSyntax
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %q is no %s", name, value, form)
	}
	c.Names = append(c.Names, name)
	return nil
}

func presetNames() []string {
	names := []string{defaultPreset}
	for _, p := range Presets {
		names = append(names, p.Name)
	}
	return names
}

// defaultPreset sets every setting to its default.
const defaultPreset = "default"

// words are the differences as Parse reads them, each with the value that is asked for.
func words(differences []Difference) (all []string) {
	for _, d := range differences {
		all = append(all, d.Name+"="+d.Asked)
	}
	return all
}

// PresetOf returns what the preset of that name sets; false if there is none.
func PresetOf(name string) (Change, bool) {
	if name == defaultPreset {
		c := Change{Policy: schemas.DefaultPolicy()}
		for _, s := range c.Policy.Settings() {
			c.Names = append(c.Names, s.Name)
		}
		return c, true
	}
	for _, p := range Presets {
		if p.Name == name {
			return Change{Policy: p.Policy, Names: PresetSettings}, true
		}
	}
	return Change{}, false
}
