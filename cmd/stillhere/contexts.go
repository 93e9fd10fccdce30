package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/tools/contexts"
	"github.com/stillhere/stillhere/tools/output"
)

// contextCommand keeps where pipelines are and how to reach them.
type contextCommand struct {
	Add    contextAdd    `cmd:"" help:"Add a context, or change one."`
	List   contextList   `cmd:"" help:"Print the contexts; a star marks the current one."`
	Use    contextUse    `cmd:"" help:"Make a context the current one, which commands use unless --context names another."`
	Show   contextShow   `cmd:"" help:"Print the settings of a context, without secrets."`
	Remove contextRemove `cmd:"" help:"Remove a context, with its secrets."`
}

// heldSettings are the settings that a context can hold.
type heldSettings struct {
	URL       string  `help:"URL of the API." group:"Service:"`
	Tenant    *string `help:"With --ids text: tenant of the users." group:"Service:"`
	tokenFlag `group:"Service:"`
	kafkaFlags
	Redis         app.Redis `embed:"" group:"Redis:"`
	postgresFlags `group:"Postgres:"`
}

type contextAdd struct {
	Name    string   `arg:"" help:"The context."`
	FromEnv bool     `name:"from-env" help:"Keep settings of the environment (STILLHERE_TOKEN and so on), too; the command line overrides them." env:"-"`
	Use     bool     `help:"Make it the current context." env:"-"`
	Unset   []string `help:"Settings to remove from the context, by the names of their flags." env:"-" placeholder:"NAME"`
	heldSettings
}

// Help is shown above the flags.
func (*contextAdd) Help() string {
	return `A context holds addresses and credentials, so that they need not be typed. Commands take a setting from the command line, else the environment, else the file of --config, else the context. Settings that are not given stay as they are.

    stillhere context add prod --url https://presence.example.com --token-file ~/presence.token --use
    stillhere context add prod --kafka-brokers kafka-1:9092,kafka-2:9092 --kafka-tls --ids text --identity-key-file identity.key
    STILLHERE_TOKEN=… stillhere context add staging --url https://staging.example.com --from-env
    stillhere get ann@example.com --context staging

The file is contexts.yaml in the folder stillhere of your configuration (STILLHERE_CONTEXTS names another), and only you can read it. A secret on the command line is seen by others of this machine: better name a file, or use --from-env.

A command that names another address (--url, --kafka-brokers, --redis, --postgres) takes nothing of that service from the context, so that credentials do not reach another server. Roles, channel, canary, load, bench and config take no context.`
}

// Run adds.
func (c *contextAdd) Run(ctx context.Context, parsed *kong.Context) error {
	if err := contexts.CheckName(c.Name); err != nil {
		return misused(err)
	}
	if err := checkURL(c.URL); err != nil {
		return misused(err)
	}
	said := ""
	err := changeContexts(ctx, func(all *contexts.File) error {
		held := maps.Clone(all.Contexts[c.Name])
		if held == nil {
			held = contexts.Settings{}
		}
		for _, flag := range parsed.Selected().Flags {
			if !isHeld(flag) {
				continue
			}
			switch from := given(parsed, flag, &configFile{}); {
			case from == "command line", from != byDefault && c.FromEnv:
				held[flag.Name] = written(parsed.FlagValue(flag))
			}
		}
		for _, name := range c.Unset {
			name = strings.TrimPrefix(name, "--")
			if _, ok := held[name]; !ok {
				return misused(fmt.Errorf("--unset: context %q has no setting %q", c.Name, name))
			}
			delete(held, name)
		}
		for _, pair := range exclusive {
			if held[pair[0]] != "" && held[pair[1]] != "" {
				return misused(fmt.Errorf("--%s, --%s: only one of the two can be given; --unset removes one", pair[0], pair[1]))
			}
		}
		all.Contexts[c.Name] = held
		if c.Use {
			all.Current = c.Name
		}
		settings := "settings"
		if len(held) == 1 {
			settings = "setting"
		}
		said = fmt.Sprintf("context %s has %d %s", c.Name, len(held), settings)
		if all.Current == c.Name {
			said += " and is the current one"
		}
		return nil
	})
	if err == nil {
		fmt.Println(said)
	}
	return err
}

// checkURL refuses a URL that no server has; empty: none is given.
func checkURL(text string) error {
	if text == "" {
		return nil
	}
	at, err := url.Parse(text)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Hostname() == "" {
		return fmt.Errorf("--url: must be such as https://presence.example.com, is %q", concealText(text))
	}
	return nil
}

// written is the value of a flag as its text.
func written(value any) string {
	switch v := value.(type) {
	case *string:
		return *v
	case []string:
		return strings.Join(v, ",")
	}
	return fmt.Sprint(value)
}

// isHeld reports whether a context can hold the flag of "context add".
func isHeld(flag *kong.Flag) bool {
	return flag.Group != nil && flag.Name != "help" && len(flag.Envs) > 0
}

// changeContexts reads the contexts, changes them, and writes them; commands that do so at once wait for one another.
func changeContexts(ctx context.Context, change func(*contexts.File) error) error {
	path, err := contexts.Path()
	if err != nil {
		return err
	}
	return contexts.Change(ctx, path, change)
}

// readContexts reads the contexts. Who has no home folder, as in a container, has none.
func readContexts() (*contexts.File, error) {
	path, err := contexts.Path()
	if err != nil {
		return &contexts.File{}, nil //nolint:nilerr // see above
	}
	return contexts.Read(path)
}

type contextList struct{ outputFlag }

// listedContext is what list prints.
type listedContext struct {
	Name    string   `json:"name"`
	Current bool     `json:"current"`
	URL     string   `json:"url,omitempty"`
	Kafka   []string `json:"kafka_brokers,omitempty"`
	IDs     string   `json:"ids"`
}

// Run prints.
func (c *contextList) Run() error {
	all, err := readContexts()
	if err != nil {
		return err
	}
	rows := func(yield func(listedContext, error) bool) {
		for _, name := range all.Names() {
			held := all.Contexts[name]
			row := listedContext{Name: name, Current: name == all.Current, URL: concealText(held["url"]), IDs: string(identity.Int)}
			if held["ids"] != "" {
				row.IDs = held["ids"]
			}
			if brokers := held["kafka-brokers"]; brokers != "" {
				row.Kafka = strings.Split(brokers, ",")
			}
			if !yield(row, nil) {
				return
			}
		}
	}
	return printRows(c.Output, rows, []output.Column[listedContext]{
		{Head: "CURRENT", Value: func(l listedContext) any { return map[bool]string{true: "*"}[l.Current] }},
		{Name: "name", Head: "NAME", Value: func(l listedContext) any { return l.Name }},
		{Name: "current", Value: func(l listedContext) any { return l.Current }},
		{Name: "url", Head: "URL", Value: func(l listedContext) any { return l.URL }},
		{Name: "kafka_brokers", Head: "KAFKA", Value: func(l listedContext) any { return l.Kafka }},
		{Name: "ids", Head: "IDS", Value: func(l listedContext) any { return l.IDs }},
	}, itself)
}

type contextUse struct {
	Name string `arg:"" help:"The context; \"\" for none."`
}

// Run changes the current context.
func (c *contextUse) Run(ctx context.Context) error {
	return changeContexts(ctx, func(all *contexts.File) error {
		if c.Name != "" {
			if _, err := all.Of(c.Name); err != nil {
				return err
			}
		}
		all.Current = c.Name
		return nil
	})
}

type contextShow struct {
	Name string `arg:"" optional:"" help:"The context. Default: the current one."`
	outputFlag
}

// Run prints.
func (c *contextShow) Run(parsed *kong.Context) error {
	all, err := readContexts()
	if err != nil {
		return err
	}
	name := c.Name
	if name == "" {
		if name = all.Current; name == "" {
			return misused(fmt.Errorf("<name>: there is no current context; \"stillhere context use\" sets it"))
		}
	}
	held, err := all.Of(name)
	if err != nil {
		return err
	}
	known := heldFlags(parsed.Model)
	shown := map[string]string{}
	for setting, value := range held {
		if shown[setting] = hidden; known[setting] != nil {
			shown[setting] = conceal(known[setting], value)
		}
	}
	rows := make([]contextSetting, 0, len(shown))
	for _, setting := range slices.Sorted(maps.Keys(shown)) {
		rows = append(rows, contextSetting{setting, shown[setting]})
	}
	return printObject(c.Output, shown, rowsOf(rows), []output.Column[contextSetting]{
		{Name: "setting", Head: "SETTING", Value: func(s contextSetting) any { return s.Setting }},
		{Name: "value", Head: "VALUE", Value: func(s contextSetting) any { return s.Value }},
	})
}

// contextSetting is a row of show.
type contextSetting struct {
	Setting string `json:"setting"`
	Value   string `json:"value"`
}

type contextRemove struct {
	Name string `arg:"" help:"The context."`
}

// Run removes.
func (c *contextRemove) Run(ctx context.Context) error {
	return changeContexts(ctx, func(all *contexts.File) error { return all.Remove(c.Name) })
}
