package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/reload"
)

// lookEvery is the time between two looks at the files.
const lookEvery = 2 * time.Second

// logLevelFlag is the setting that this command itself takes over.
const logLevelFlag = "log-level"

// reloader reads the configuration of a running role again: the same command line and environment,
// with the file as it is now.
type reloader struct {
	args  []string
	role  string
	level slog.LevelVar
	first app.Config
	hups  chan os.Signal

	// Owned by the goroutine that reloads.
	inUse map[string]any // values of settings by flag, those that need a restart as they were at the start
	files []string       // to watch
}

// newReloader begins to catch SIGHUP, which would end the process.
func newReloader(args []string, role string, parsed *kong.Context, c *roleCommand) *reloader {
	r := &reloader{args: args, role: role, first: c.config(), hups: make(chan os.Signal, 1)}
	r.level.Set(c.LogLevel)
	r.inUse = settingValues(parsed)
	r.files = r.watched(r.inUse)
	signal.Notify(r.hups, syscall.SIGHUP)
	return r
}

// run is app.Config.Reload.
func (r *reloader) run(ctx context.Context, registry prometheus.Registerer, log *slog.Logger, apply func(app.Config) error) error {
	defer signal.Stop(r.hups)
	return reload.Run(ctx, reload.Config{
		Files: func() []string { return r.files }, Signals: r.hups, Every: lookEvery, Registry: registry, Log: log,
		Load: func(context.Context) (reload.Outcome, error) { return r.load(apply) },
	})
}

// load reads everything again, refuses it as the start would, and puts into force what can be.
func (r *reloader) load(apply func(app.Config) error) (found reload.Outcome, err error) {
	next, parsed, err := r.parse()
	if err != nil {
		return found, err
	}
	values := settingValues(parsed)
	r.files = r.watched(values)
	config := next.config()
	if err := app.Check(r.role, config); err != nil {
		return found, err
	}
	if err := apply(config); err != nil {
		return found, err
	}
	r.level.Set(next.LogLevel)
	for _, flag := range settingsOf(parsed.Selected()) {
		value := values[flag.Name]
		switch {
		case reflect.DeepEqual(value, r.inUse[flag.Name]):
		case flag.Name == policyFlagName:
			found.Policy = "stillhere policy set " + strings.ReplaceAll(next.Asked.text, ",", " ")
		case flag.Name != logLevelFlag && r.first.NeedsRestart(flag.Name, config):
			found.Restart = append(found.Restart, flag.Name)
		default:
			found.Applied = append(found.Applied, flag.Name)
			r.inUse[flag.Name] = value
		}
	}
	return found, nil
}

// parse reads the command line and the file again.
func (r *reloader) parse() (next *roleCommand, parsed *kong.Context, err error) {
	file, resolvers, err := readSettings(r.args)
	if err != nil {
		return nil, nil, err
	}
	parser, err := newParser(&commands{}, kong.Writers(io.Discard, io.Discard), resolvers)
	if err != nil {
		return nil, nil, err
	}
	parsed, err = parser.Parse(r.args)
	if err = errors.Join(file.unknown(parser.Model), err); err != nil {
		return nil, nil, err
	}
	return parsed.Selected().Target.Addr().Interface().(*roleCommand), parsed, nil //nolint:errcheck,forcetypeassert // as at the start
}

// settingValues are the settings of the command by the names of their flags.
func settingValues(parsed *kong.Context) map[string]any {
	all := map[string]any{}
	for _, flag := range settingsOf(parsed.Selected()) {
		all[flag.Name] = parsed.FlagValue(flag)
	}
	return all
}

// watched are the files whose contents matter to a running process: the configuration, secrets, keys,
// certificates and authorities. What is read at each connection is among them, so that a fault in it
// is reported when it is made.
func (r *reloader) watched(values map[string]any) (files []string) {
	if path := early(r.args, "config"); path != "" {
		files = append(files, path)
	}
	for name, value := range values {
		path, ok := value.(string)
		named := slices.ContainsFunc([]string{"-file", "-tls-ca", "-tls-cert", "-tls-key"}, func(end string) bool { return strings.HasSuffix(name, end) })
		if ok && path != "" && (named || name == "auth-jwks" && !strings.Contains(path, "://")) {
			files = append(files, path)
		}
	}
	slices.Sort(files)
	return files
}
