package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/tools/contexts"
)

// contextFlag names the context of a command.
const contextFlag = "context"

// exclusive are pairs of settings of which a command takes one.
var exclusive = [][2]string{
	{"token", "token-file"}, {"kafka-password", "kafka-password-file"}, {"identity-key", "identity-key-file"},
	{"kafka-oauth-client-secret", "kafka-oauth-client-secret-file"}, {"redis-password", "redis-password-file"}, {"postgres", "sqlite"},
}

// services are what settings are for: prefixes of names of flags, with the flag that has the address.
var services = []struct{ prefix, address string }{
	{"url", "url"}, {"token", "url"}, {"kafka-", "kafka-brokers"}, {"redis", "redis"}, {"postgres", "postgres"},
}

// contextResolver gives flags the values of a context. The command line, the environment and the file go before it.
type contextResolver struct {
	file  *configFile
	name  string // of --context; empty: the current one
	used  string // the context that is read
	read  bool
	held  contexts.Settings
	err   error
	known map[string]*kong.Flag // that a context can hold
}

// contextName is the context that the command line or the environment names. It is wanted before the rest can be read.
func contextName(args []string) string {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if name, ok := strings.CutPrefix(arg, "--"+contextFlag+"="); ok {
			return name
		}
		if arg == "--"+contextFlag && i+1 < len(args) {
			return args[i+1]
		}
	}
	return os.Getenv("STILLHERE_CONTEXT")
}

// Validate has nothing to refuse: the file is read for commands that take contexts.
func (*contextResolver) Validate(*kong.Application) error { return nil }

// takesContext reports whether a command takes settings of contexts: servers and what measures them do not, nor
// commands with the tag context:"-".
func takesContext(node *kong.Node) bool {
	for ; node != nil && node.Parent != nil; node = node.Parent {
		if node.Tag.Get(contextFlag) == "-" || node.Group != nil && (node.Group.Title == "Roles:" || node.Group.Title == "Measure:") {
			return false
		}
	}
	return true
}

// checkContext refuses --context for commands that take none.
func checkContext(parsed *kong.Context) error {
	named := slices.ContainsFunc(parsed.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == contextFlag && !p.Resolved })
	if named && !takesContext(parsed.Selected()) {
		return fmt.Errorf("--context: stillhere %s takes no context", commandName(parsed.Selected()))
	}
	return nil
}

// Resolve gives a flag that is not on the command line its value.
func (r *contextResolver) Resolve(parsed *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if !takesContext(parsed.Selected()) {
		return nil, nil
	}
	if !r.read {
		r.read = true
		r.used, r.held, r.err = readContext(r.name)
		r.known = heldFlags(parsed.Model)
	}
	if r.err != nil {
		return nil, r.err
	}
	value, ok := r.held[flag.Name]
	if ok && flag.Name == "ids" && value != string(identity.Int) && given(parsed, flag, r.file) == byDefault && r.overridden(parsed, flag.Name) {
		r.file.unused = r.used
	}
	if !ok || r.known[flag.Name] == nil || flag.Tag.Get(contextFlag) == "-" || r.overridden(parsed, flag.Name) {
		return nil, nil
	}
	return value, nil
}

// overridden reports whether the operator gave in another way what the setting is for.
func (r *contextResolver) overridden(parsed *kong.Context, name string) bool {
	flags := map[string]bool{} // of this command, by name: whether the operator gave it
	for _, path := range parsed.Path {
		for _, flag := range path.Flags {
			flags[flag.Name] = given(parsed, flag, r.file) != byDefault
		}
	}
	if flags[name] {
		return true
	}
	for _, pair := range exclusive {
		if pair[0] == name && flags[pair[1]] || pair[1] == name && flags[pair[0]] {
			return true
		}
	}
	for _, s := range services {
		if strings.HasPrefix(name, s.prefix) {
			return flags[s.address]
		}
	}
	// How users are named belongs to the pipeline, whatever the command reaches of it.
	return slices.ContainsFunc(services, func(s struct{ prefix, address string }) bool { return flags[s.address] })
}

// readContext reads a context, and says which one; empty: the current one, or nothing.
func readContext(name string) (used string, held contexts.Settings, err error) {
	all, err := readContexts()
	if err != nil {
		return "", nil, err
	}
	if used = cmp.Or(name, all.Current); used == "" {
		return "", nil, nil
	}
	if held, err = all.Of(used); err != nil {
		return "", nil, fmt.Errorf("--context: %w", err)
	}
	return used, held, nil
}

// heldFlags are the flags that a context can hold, by name.
func heldFlags(app *kong.Application) map[string]*kong.Flag {
	held := map[string]*kong.Flag{}
	for _, flag := range childOf(childOf(app.Node, "context"), "add").Flags {
		if isHeld(flag) {
			held[flag.Name] = flag
		}
	}
	return held
}

// rank orders origins of settings: 0 nobody gave it, 1 the context, 2 the file, 3 the environment, 4 the command line.
func rank(parsed *kong.Context, file *configFile, name string) int {
	for _, path := range parsed.Path {
		for _, flag := range path.Flags {
			if flag.Name != name {
				continue
			}
			from := given(parsed, flag, file)
			switch {
			case from == "command line":
				return 4
			case slices.Contains(flag.Envs, from):
				return 3
			case from != byDefault:
				return 2
			case slices.ContainsFunc(parsed.Path, func(p *kong.Path) bool { return p.Flag == flag && p.Resolved }):
				return 1
			}
		}
	}
	return 0
}

// throughAPI reports whether a command that can work through the API or on Kafka and stores does so through the API:
// the one whose address was given nearest to the command. With both from a context it is the API, with both from
// elsewhere, or none, Kafka and the stores, as in older versions.
func throughAPI(parsed *kong.Context, file *configFile, others ...string) (bool, error) {
	url, other := rank(parsed, file, "url"), 0
	for _, name := range others {
		other = max(other, rank(parsed, file, name))
	}
	if url == 4 && other == 4 {
		return false, misused(errors.New("--url: the API does it, and then no address of Kafka or a store can be given"))
	}
	return url > other || url == 1 && other == 1, nil
}
