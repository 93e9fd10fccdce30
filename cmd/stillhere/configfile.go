package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/stillhere/stillhere/internal/keys"
)

// configFile is the one YAML file: names of flags, with their values. Names may be
// cut at dashes and nested (kafka: {brokers: …}), and written with underscores.
// The section of contexts that --context names overrides the others. Flags and the environment go before it.
type configFile struct {
	path     string
	values   map[string]string // by name of flag
	lines    map[string]int
	contexts map[string]*configFile // the sections of contexts, by name
	used     string                 // the context that was taken; empty: none
}

// contextFlag names the context of a command.
const contextFlag = "context"

// secrets are what proves who a command is, by the setting of the address that it is meant for.
var secrets = map[string][]string{
	"url": {"token-file"}, "postgres": nil, "sqlite": nil,
	"kafka-brokers": {"kafka-password-file", "kafka-oauth-client-secret-file"},
	"redis":         {"redis-password-file"},
}

// early is a flag's value on the command line, else in the environment; empty for none. --config and --context are
// wanted before the rest can be read.
func early(args []string, name string) string {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value
		}
		if arg == "--"+name && i+1 < len(args) {
			return args[i+1]
		}
	}
	return os.Getenv("STILLHERE_" + strings.ToUpper(name))
}

// use takes the settings of a context. With an address of its own it is another pipeline: the addresses of the rest of
// the file are not taken, nor are the secrets for those that the context has.
func (f *configFile) use(name string) error {
	section := f.contexts[name]
	if section == nil {
		there := "--config names the file that has contexts"
		if f.path != "" {
			there = fmt.Sprintf("%s has %q", f.path, slices.Sorted(maps.Keys(f.contexts)))
		}
		return fmt.Errorf("--context: there is no context %q; %s", name, there)
	}
	isAddress := func(name string) bool { _, is := secrets[name]; return is }
	if own := slices.DeleteFunc(slices.Collect(maps.Keys(section.values)), func(name string) bool { return !isAddress(name) }); len(own) > 0 {
		maps.DeleteFunc(f.values, func(name, _ string) bool { return isAddress(name) })
		for _, address := range own {
			for _, secret := range secrets[address] {
				delete(f.values, secret)
			}
		}
	}
	maps.Copy(f.values, section.values)
	maps.Copy(f.lines, section.lines)
	f.used = name
	return nil
}

func newConfigFile(path string) *configFile {
	return &configFile{path: path, values: map[string]string{}, lines: map[string]int{}, contexts: map[string]*configFile{}}
}

func readConfigFile(path string) (*configFile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	f := newConfigFile(path)
	var document yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return f, nil // empty
	case err != nil:
		return nil, fmt.Errorf("--config %s: %w", path, err)
	}
	if err := f.take("", document.Content[0]); err != nil {
		return nil, fmt.Errorf("--config %s: %w", path, err)
	}
	return f, nil
}

// take reads the value called name, and what is nested in it.
func (f *configFile) take(name string, node *yaml.Node) error {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch {
	case node.Kind == yaml.MappingNode:
		var faults []error
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := strings.ReplaceAll(node.Content[i].Value, "_", "-")
			if name == "" && f.contexts != nil && key == "contexts" {
				faults = append(faults, f.takeContexts(node.Content[i+1]))
				continue
			}
			if name != "" {
				key = name + "-" + key
			}
			faults = append(faults, f.take(key, node.Content[i+1]))
		}
		return errors.Join(faults...)
	case name == "":
		return errors.New("must be a list of names and values, such as \"kafka-brokers: kafka:9092\"")
	}
	if _, twice := f.values[name]; twice {
		return fmt.Errorf("line %d: %s is given twice", node.Line, name)
	}
	f.lines[name] = node.Line
	switch node.Kind {
	case yaml.ScalarNode:
		if node.Tag == "!!null" {
			return nil // a name without a value: as if it were not there
		}
		f.values[name] = node.Value
	case yaml.SequenceNode:
		var parts []string
		for _, each := range node.Content {
			if each.Kind != yaml.ScalarNode {
				return fmt.Errorf("line %d: %s must be a list of plain values", each.Line, name)
			}
			parts = append(parts, each.Value)
		}
		f.values[name] = strings.Join(parts, ",")
	}
	return nil
}

// takeContexts reads the sections of contexts.
func (f *configFile) takeContexts(node *yaml.Node) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: contexts must be a list of names, each with its settings", node.Line)
	}
	var faults []error
	for i := 0; i+1 < len(node.Content); i += 2 {
		section := newConfigFile(f.path)
		section.contexts = nil // they do not nest
		f.contexts[node.Content[i].Value] = section
		if err := section.take("", node.Content[i+1]); err != nil {
			faults = append(faults, fmt.Errorf("context %q: %w", node.Content[i].Value, err))
		}
	}
	return errors.Join(faults...)
}

// unknown reports names that no command knows, so that a misspelt one is not left out in silence. Other
// commands' settings are no fault: one file serves all. The parser's Validate would report
// no other fault beside.
func (f *configFile) unknown(app *kong.Application) error {
	known := map[string]bool{}
	_ = kong.Visit(app, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && isSetting(flag) {
			known[flag.Name] = true
		}
		return next(nil)
	})
	for _, name := range []string{"help", "version", "config", contextFlag} {
		delete(known, name)
	}
	names := slices.Collect(maps.Keys(f.lines))
	slices.SortFunc(names, func(a, b string) int { return f.lines[a] - f.lines[b] })
	var faults []error
	for _, name := range names {
		if known[name] {
			continue
		}
		hint := ""
		if near := nearestSetting(slices.Sorted(maps.Keys(known)), name); near != "" {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		faults = append(faults, fmt.Errorf("--config %s: line %d: there is no setting %q%s", f.path, f.lines[name], name, hint))
	}
	for _, name := range slices.Sorted(maps.Keys(f.contexts)) {
		if section := f.contexts[name]; name != f.used {
			faults = append(faults, section.unknown(app))
		}
	}
	return errors.Join(faults...)
}

// Validate is for the parser; see unknown.
func (*configFile) Validate(*kong.Application) error { return nil }

// nearestSetting is the first of the names that differ least from a misspelt one: by a third of its letters at most,
// or by a missing prefix; empty: none.
func nearestSetting(names []string, misspelt string) (nearest string) {
	least := max(1, len(misspelt)/3) + 1
	for _, name := range names {
		d := distance(name, misspelt)
		if strings.HasSuffix(name, "-"+misspelt) {
			d = 1
		}
		if d < least {
			nearest, least = name, d
		}
	}
	return nearest
}

// distance is how many letters have to be added, removed or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// isSetting reports whether a flag may be in the file. What an environment variable may not say, the command line
// alone says: a flag of another command may have the same name. But contexts have the tenant of who reads. A hidden
// flag is a secret, which only the environment has: its file is a setting.
func isSetting(flag *kong.Flag) bool {
	return len(flag.Envs) > 0 && !flag.Hidden || flag.Name == "tenant" && !flag.IsSlice()
}

// Resolve gives a setting that is not on the command line its value.
func (f *configFile) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, given := os.LookupEnv(name); given {
			return nil, nil
		}
	}
	value, given := f.values[flag.Name]
	if !given || !isSetting(flag) {
		return nil, nil
	}
	if isSecret(value) {
		if _, err := keys.ReadFile(f.path); err != nil {
			return nil, fmt.Errorf("--config: has the secret %s: %w", flag.Name, err)
		}
	}
	return value, nil
}
