package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/policy"
)

// configCommand is about settings.
type configCommand struct {
	Check configCheck `cmd:"" help:"Print the effective settings of a role, without secrets, and report every invalid one."`
	Init  configInit  `cmd:"" help:"Print a configuration file with every setting, its default and its meaning."`
}

type configCheck struct {
	Role string `arg:"" optional:"" help:"Which role: ${enum}." enum:"all,ingest,detector,lastseen,fanout,api" default:"all"`
	roleCommand
}

func (c *configCheck) check(role) error { return app.Check(c.Role, c.config()) }

// Run prints and checks.
func (c *configCheck) Run(parsed *kong.Context, file *configFile) error {
	if err := printSettings(parsed.Stdout, parsed, file); err != nil {
		return err
	}
	lines := []string{"", "the policy of a new pipeline:"}
	for _, s := range c.settings().Settings() {
		lines = append(lines, fmt.Sprintf("  %-20s %s", s.Name, s.Value))
	}
	if err := printLines(parsed.Stdout, "# ", lines); err != nil {
		return err
	}
	faults := c.check("")
	if faults == nil {
		if signs := app.DescribeSigning(c.Role, c.config()); signs != "" {
			if _, err := fmt.Fprintln(parsed.Stdout, "\n# "+signs); err != nil {
				return err
			}
		}
		if err := printCosts(parsed.Stdout, c.config()); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(parsed.Stdout, "# these settings are valid for %q\n#\n", c.Role); err != nil {
			return err
		}
	}
	if c.settings().Validate() != nil {
		return faults // which name it
	}
	// Whoever tries policies has perhaps no Postgres yet.
	const heading = "# what others see of a user (a running pipeline goes by the policy in force: see \"policy show\"):\n"
	if _, err := fmt.Fprint(parsed.Stdout, heading); err != nil {
		return err
	}
	return errors.Join(faults, printLines(parsed.Stdout, "# ", policy.Describe(c.settings())))
}

// printLines prints lines, each after a prefix.
func printLines(to io.Writer, prefix string, lines []string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(to, prefix+line); err != nil {
			return err
		}
	}
	return nil
}

// printSettings prints the flags of the command as a configuration file, each with
// where it comes from.
func printSettings(to io.Writer, parsed *kong.Context, file *configFile) error {
	group := ""
	for _, flag := range settingsOf(parsed.Selected()) {
		if flag.Group != nil && flag.Group.Title != group {
			group = flag.Group.Title
			if _, err := fmt.Fprintf(to, "\n# %s\n", group); err != nil {
				return err
			}
		}
		text, err := shown(flag, parsed.FlagValue(flag))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(to, "%s: %-*s # %s\n", flag.Name, max(1, 40-len(flag.Name)), text, origin(parsed, flag, file)); err != nil {
			return err
		}
	}
	return nil
}

// byDefault is the origin of a setting that nobody gave.
const byDefault = "default"

// origin returns where the value of a setting comes from: the first of the command line, the
// environment and the file that has one.
func origin(parsed *kong.Context, flag *kong.Flag, file *configFile) string {
	for _, path := range parsed.Path {
		if path.Flag == flag && !path.Resolved {
			return "command line"
		}
	}
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return name
		}
	}
	if _, set := file.values[flag.Name]; set && isSetting(flag) {
		return fmt.Sprintf("%s:%d", file.path, file.lines[flag.Name])
	}
	return byDefault
}

// isGiven reports whether the operator gave the flag of this name.
func isGiven(parsed *kong.Context, file *configFile, name string) bool {
	return slices.ContainsFunc(parsed.Selected().Flags, func(flag *kong.Flag) bool {
		return flag.Name == name && origin(parsed, flag, file) != byDefault
	})
}

// settingsOf are the flags that are settings, in order.
func settingsOf(node *kong.Node) []*kong.Flag {
	var all []*kong.Flag
	for _, flag := range node.Flags {
		if flag.Group != nil && flag.Name != "help" && !flag.Hidden {
			all = append(all, flag)
		}
	}
	return all
}

const hidden = "(hidden)"

// shown is the value as YAML, without what must not be shown.
func shown(flag *kong.Flag, value any) (string, error) {
	switch v := value.(type) {
	case string:
		value = conceal(flag, v)
	case []string:
		safe := make([]string, len(v))
		for i := range v {
			safe[i] = conceal(flag, v[i])
		}
		value = strings.Join(safe, ",")
	case fmt.Stringer:
		value = v.String()
	}
	text, err := yaml.Marshal(value)
	return strings.TrimSpace(string(text)), err
}

// word is a password in what is not a URL: user=… password=….
var word = regexp.MustCompile(`(?i)(password\s*=\s*)('[^']*'|\S+)`)

func conceal(flag *kong.Flag, text string) string {
	if text == "" {
		return ""
	}
	return concealText(text)
}

// concealText is a text, which may be a URL, without passwords.
func concealText(text string) string {
	if u, err := url.Parse(text); err == nil && (u.Host != "" || u.User != nil) {
		query := u.Query()
		web := u.Scheme == "http" || u.Scheme == "https" // where any parameter may be a token
		for name := range query {
			if web || strings.Contains(strings.ToLower(name), "password") {
				query.Set(name, "hidden")
				u.RawQuery = query.Encode()
			}
		}
		return u.Redacted()
	}
	return word.ReplaceAllString(text, "${1}"+hidden)
}

type configInit struct{}

// Run prints.
func (*configInit) Run(parsed *kong.Context) error {
	var role *kong.Node
	for _, child := range parsed.Model.Children {
		if child.Name == "all" {
			role = child
		}
	}
	var b strings.Builder
	b.WriteString("# Settings of Stillhere for all roles. A setting that is not in the file has the default shown here.\n" +
		"# The command line overrides the environment, and the environment overrides this file.\n")
	group := ""
	for _, flag := range settingsOf(role) {
		if flag.Group.Title != group {
			group = flag.Group.Title
			fmt.Fprintf(&b, "\n# %s\n", group)
		}
		fmt.Fprintf(&b, "\n# %s\n#%s\n", strings.TrimSpace(flag.Help), strings.TrimSpace(flag.Name+": "+example(flag)))
	}
	_, err := io.WriteString(parsed.Stdout, b.String())
	return err
}

func example(flag *kong.Flag) string {
	if flag.HasDefault {
		text, err := yaml.Marshal(flag.Default)
		if err == nil {
			return strings.TrimSpace(string(text))
		}
	}
	if flag.IsBool() {
		return "false"
	}
	return "" // a name without a value is not set
}
