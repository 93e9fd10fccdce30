// Command stillhere runs the parts of a Stillhere presence pipeline, and the
// tools around it. `stillhere --help` explains them.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

const description = `Stillhere reports who is online: it takes heartbeats, decides which users are online, away or offline, sends every change to viewers, and keeps a log of all changes.

Start with "stillhere dev": the whole pipeline in one process, nothing to install. In production each role (ingest, detector, lastseen, fanout, api) runs as processes of its own, or all of them in one with "stillhere all".

You can set flags in the environment, under the name that their help shows (--kafka-brokers is STILLHERE_KAFKA_BROKERS), or in a YAML file (kafka-brokers in --config FILE; "stillhere config init" prints one). The command line overrides the environment, and the environment overrides the file. A file for several pipelines has a section for each under contexts, which --context chooses. Exit codes: 0 success, 1 failure or interrupted, 2 invalid command line.`

// commands is the command line.
type commands struct {
	Dev      devCommand     `cmd:"" set:"admin=" set:"followers=all" set:"graph_topic=true" group:"Roles:" help:"Run the whole pipeline in this process, with embedded Kafka, Redis and SQLite."` //nolint:staticcheck // kong reads every "set"
	All      roleCommand    `cmd:"" group:"Roles:" help:"Run every role in one process, on external Kafka, Redis and Postgres."`
	Ingest   roleCommand    `cmd:"" group:"Roles:" help:"Take heartbeats over HTTP and WebSocket and write them to Kafka."`
	Detector roleCommand    `cmd:"" group:"Roles:" help:"Decide who is online, away or offline and publish every change."`
	Lastseen roleCommand    `cmd:"" group:"Roles:" help:"Keep last seen and the log of changes in Postgres, and the current status in Redis."`
	Fanout   roleCommand    `cmd:"" group:"Roles:" help:"Publish changes to viewers and followers."`
	Channel  channelCommand `cmd:"" set:"admin=" group:"Roles:" help:"Deliver changes to followers through a notification channel."`
	API      roleCommand    `cmd:"" group:"Roles:" name:"api" help:"Answer reads and serve the live stream."`

	Topics  topicsCommand  `cmd:"" group:"Set up:" help:"Create or check the Kafka topics."`
	Migrate migrateCommand `cmd:"" group:"Set up:" help:"Bring the Postgres schema up to date."`
	Policy  policyCommand  `cmd:"" group:"Set up:" help:"Show or change the policy in force, which decides when a user is online, away or offline."`
	Config  configCommand  `cmd:"" group:"Set up:" help:"Check the settings, or print a configuration file."`

	Identity identityCommand `cmd:"" group:"Set up:" help:"Print how the pipeline names users, or the ids of names."`
	Keys     keysCommand     `cmd:"" group:"Set up:" help:"Print a key: a new master or identity key of a pipeline, or the key of a gateway that writes to Kafka itself."`
	Tenants  tenantsCommand  `cmd:"" group:"Set up:" help:"List tenants and change their settings: quotas, retention."`

	Graph graphCommand `cmd:"" group:"Set up:" help:"Manage the follower graph."`

	Get     getCommand     `cmd:"" group:"Users:" help:"Print the presence of users now, or as it changes."`
	History historyCommand `cmd:"" group:"Users:" help:"Print the changes of a user, newest first."`

	Audience audienceCommand `cmd:"" group:"Users:" help:"Set or print to whom users are shown, whom they deny, and what others learn of when they were last here."`
	Override overrideCommand `cmd:"" group:"Users:" help:"Show users as not to be disturbed, away or invisible, until an end or without one."`

	Beat  beatCommand  `cmd:"" group:"Try it:" help:"Send heartbeats for a user."`
	Load  loadCommand  `cmd:"" group:"Try it:" help:"Simulate users who connect, work, idle and disconnect, through gateways that crash now and then."`
	Token tokenCommand `cmd:"" group:"Try it:" help:"Make a token, for servers that verify tokens with a secret."`

	Replay   replayCommand   `cmd:"" group:"Data:" help:"Export every published change as a table, JSON, JSON lines, CSV or Parquet."`
	Asof     asofCommand     `cmd:"" group:"Data:" help:"Print who was online, away or offline at an instant."`
	Sessions sessionsCommand `cmd:"" group:"Data:" help:"Print the online sessions per user and device kind."`
	Backtest backtestCommand `cmd:"" group:"Data:" help:"Try other settings on recorded heartbeats and compare what would have been published."`
	Rebuild  rebuildCommand  `cmd:"" group:"Data:" help:"Rebuild a store from the log while the pipeline runs."`
	Erase    eraseCommand    `cmd:"" group:"Data:" help:"Erase everything about users, and print receipts."`
	Export   exportCommand   `cmd:"" group:"Data:" help:"Write everything that is stored about a user, as JSON lines."`
	Import   importCommand   `cmd:"" group:"Data:" help:"Bring in last seen times that another system has recorded."`
	Record   recordCommand   `cmd:"" group:"Data:" help:"Save heartbeats in a file, so that backtest can use them after the topic has dropped them."`

	Canary  canaryCommand  `cmd:"" set:"kafka_brokers=" group:"Understand:" help:"Act as a user who comes, is watched, goes, is read and replayed, and report latencies and failures as metrics."`
	Status  statusCommand  `cmd:"" group:"Understand:" help:"Print how the pipeline does: users, rates, processes, partitions, gateways, and what is wrong."`
	Health  healthCommand  `cmd:"" group:"Understand:" help:"Check that a process on this machine is alive or ready; for health checks of containers."`
	Explain explainCommand `cmd:"" group:"Understand:" help:"Explain why a transition was published: rule, record, what the detector knew, neighbours."`

	Completion completionCommand `cmd:"" group:"Understand:" help:"Print the completion script of a shell."`
	Complete   completeCommand   `cmd:"" hidden:"" help:"Print the completions of the last word."`

	Bench benchCommand `cmd:"" group:"Measure:" help:"Measure the performance on this machine."`
	Plan  planCommand  `cmd:"" group:"Measure:" help:"Compute what a number of users needs and costs: partitions, nodes, bandwidth, memory, disk, money."`

	ConfigFile  string           `name:"config" help:"YAML file with settings, by the names of the flags; see \"config init\"." placeholder:"FILE"`
	ContextName string           `name:"context" help:"Section of contexts in the file of --config whose settings override the others of the file." placeholder:"NAME"`
	Version     kong.VersionFlag `help:"Print the version and exit." short:"V" env:"-"`
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run returns the exit code: 0 done, 1 failed, 2 the command line cannot be understood.
func run(args []string, out, errs io.Writer) int {
	var cli commands
	file, resolvers, err := readSettings(args)
	if err != nil {
		report(errs, err)
		return 2
	}
	parser, err := newParser(&cli, kong.Writers(out, errs), resolvers)
	if err != nil {
		report(errs, err)
		return 1
	}
	unknown := file.unknown(parser.Model)
	args = withNegatives(parser.Model, args)
	code, parsed, err := parseArgs(parser, args)
	switch {
	case err != nil:
		report(errs, errors.Join(unknown, asParsed(err)))
		hintHelp(errs, commandOf(err))
		return 2
	case parsed == nil:
		return code
	}
	if err := unknown; err != nil {
		if settings, ok := parsed.Selected().Target.Addr().Interface().(checker); ok {
			err = asTyped(parsed.Selected(), errors.Join(err, settings.check(role(parsed.Command()))))
		}
		report(errs, err)
		hintHelp(errs, parsed.Selected())
		return 2
	}
	if err := refuseExposed(parsed); err != nil {
		report(errs, err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() { // the second signal ends the process at once
		<-ctx.Done()
		stop()
	}()
	parsed.BindTo(ctx, (*context.Context)(nil))
	parsed.Bind(file, givenArguments(args))
	switch err := parsed.Run(role(parsed.Command())); {
	case err == nil:
		return 0
	case errors.Is(err, context.Canceled) && endsByInterrupt(parsed):
		return 0
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		report(errs, errors.New("interrupted before all was done"))
		return 1
	default:
		report(errs, asTyped(parsed.Selected(), err))
		if errors.Is(err, syscall.ECONNREFUSED) && !isServer(parsed) {
			hintAddresses(errs, parsed.Selected())
		}
		hintToken(errs, parsed.Selected(), err)
		if errors.As(err, new(misuse)) {
			hintHelp(errs, parsed.Selected())
			return 2
		}
		return 1
	}
}

// checker is a command whose settings can be checked without running it.
type checker interface{ check(name role) error }

// endsByInterrupt reports whether an interrupt is how a command usually ends. Of another one it leaves work undone.
func endsByInterrupt(parsed *kong.Context) bool {
	command := role(parsed.Command())
	return isServer(parsed) || slices.ContainsFunc([]string{"beat", "load", "canary"}, command.is) ||
		slices.ContainsFunc(parsed.Selected().Flags, func(f *kong.Flag) bool { return f.Name == "watch" && parsed.FlagValue(f) == true })
}

// isServer reports whether a command runs roles of the pipeline.
func isServer(parsed *kong.Context) bool { return parsed.Selected().ClosestGroup().Title == "Roles:" }

// parseArgs parses the command line. The context is nil if there is an error, or if --help or --version have printed
// what was asked for; code is then that of the process.
func parseArgs(parser *kong.Kong, args []string) (code int, parsed *kong.Context, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exit:
			code, parsed, err = int(r), nil, nil
		default:
			panic(r)
		}
	}()
	parsed, err = parser.Parse(args)
	return 0, parsed, err
}

// readSettings reads the file that args or the environment name, and returns what gives flags the
// values of the file.
func readSettings(args []string) (file *configFile, resolvers kong.Option, err error) {
	file = &configFile{}
	if path := early(args, "config"); path != "" {
		if file, err = readConfigFile(path); err != nil {
			return nil, nil, err
		}
	}
	if name := early(args, contextFlag); name != "" {
		if err := file.use(name); err != nil {
			return nil, nil, err
		}
	}
	return file, kong.Resolvers(file), nil
}

// givenArguments are the arguments of the command line.
type givenArguments []string

// misuse is an error of a command line with a value that cannot be read. Settings that
// can be read and cannot work are a failure.
type misuse struct{ error }

func (m misuse) Unwrap() error { return m.error }

// misused marks an error as one; nil stays nil.
func misused(err error) error {
	if err == nil {
		return nil
	}
	return misuse{err}
}

// newParser makes what reads the command line, the environment and what more
// options name into cli.
func newParser(cli *commands, more ...kong.Option) (*kong.Kong, error) {
	return kong.New(cli, append(more,
		kong.Name("stillhere"), kong.Description(description),
		kong.Vars{"version": build{version, commit, date}.String(), "admin": "127.0.0.1:9090", "followers": "off", "graph_topic": "false", "kafka_brokers": "127.0.0.1:9092", "presets": presetHelp(), "output": outputHelp},
		kong.NamedMapper("path", kong.MapperFunc(pathMapper)), kong.NamedMapper("format", kong.MapperFunc(formatMapper)),
		kong.DefaultEnvars("STILLHERE"), kong.Help(printHelp), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Exit(func(code int) { panic(exit(code)) }))...)
}

// exit is the code with which kong wants to leave.
type exit int

// role is the command that was given, with the placeholders of its arguments.
type role string

// is reports whether the command is name.
func (r role) is(name string) bool {
	return string(r) == name || strings.HasPrefix(string(r), name+" ")
}
