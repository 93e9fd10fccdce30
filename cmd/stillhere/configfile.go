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
)

// configFile is the one YAML file: names of flags, with their values. Names may be
// cut at dashes and nested (kafka: {brokers: …}), and written with underscores.
// Flags and the environment go before it.
type configFile struct {
	path   string
	values map[string]string // by name of flag
	lines  map[string]int
	// unused is the context whose way of naming users was not taken, since the operator gave another address.
	unused string
}

// configPath is the file that is named on the command line, else in the
// environment; empty for none. It is wanted before the rest can be read.
func configPath(args []string) string {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if path, ok := strings.CutPrefix(arg, "--config="); ok {
			return path
		}
		if arg == "--config" && i+1 < len(args) {
			return args[i+1]
		}
	}
	return os.Getenv("STILLHERE_CONFIG")
}

func readConfigFile(path string) (*configFile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	f := &configFile{path: path, values: map[string]string{}, lines: map[string]int{}}
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

// unknown reports names that no command knows, so that a misspelt one is not left out in silence. Other
// commands' settings are no fault: one file serves all. The parser's Validate would report
// no other fault beside.
func (f *configFile) unknown(app *kong.Application) error {
	known := map[string]bool{}
	_ = kong.Visit(app, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
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

// Resolve gives a flag that is not on the command line its value.
func (f *configFile) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, given := os.LookupEnv(name); given {
			return nil, nil
		}
	}
	value, given := f.values[flag.Name]
	if !given {
		return nil, nil
	}
	return value, nil
}
