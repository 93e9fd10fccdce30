package app

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Console serves the web console and its endpoints.
type Console interface {
	// Routes registers the endpoints.
	Routes(mux *http.ServeMux)
	// Run does what the endpoints need beside requests until ctx ends, and ends streams then.
	Run(ctx context.Context) error
}

// ConsoleParts is what a console is made of. They are the parts of a process that answers reads.
type ConsoleParts struct {
	// Role is that of the process.
	Role string
	// Config are the settings at the start; Current those in force.
	Config  Config
	Current func() Config
	// Partitions is how many presence.heartbeats has.
	Partitions int32
	View       *redisview.View
	Store      store.Reader
	// Progress is that of the consumer loops of this process.
	Progress func() []ConsoleProgress
	// Metrics are those of this process.
	Metrics prometheus.Gatherer
	// Counts makes a function that reports whether detectors take the frame of a record of the topic. Each
	// partition is for one goroutine.
	Counts func(schemas.Topic) func(*schemas.Record, *schemas.Frame) bool
	// Checks runs the readiness checks of this process.
	Checks func(context.Context) []ConsoleCheck
	// IsAdmin reports whether a request has the token of an administrator.
	IsAdmin func(*http.Request) bool
	Log     *slog.Logger
}

// ConsoleProgress is how far a consumer loop of this process is with a partition.
type ConsoleProgress struct {
	// Group is as Kafka knows it, with the prefix.
	Group     string
	Partition int32
	Phase     string // restoring, running or parked
	Lag       int64  // records
	// Behind is the age of the last processed record, 0 if none waits; nil if it is not known.
	Behind *time.Duration
}

// ConsoleGroup is a consumer group, named without the prefix, and the topic that it reads.
type ConsoleGroup struct {
	Group string
	Topic schemas.Topic
}

// ConsoleCheck is the result of a readiness check.
type ConsoleCheck struct {
	Name   string
	Needed bool // without it the process is not ready
	Err    error
}

// ConsoleGroups are the consumer groups of a pipeline with the topics that they read, those of
// channels aside.
func ConsoleGroups(text bool) []ConsoleGroup {
	groups := []ConsoleGroup{
		{Group: detectorGroup, Topic: schemas.Heartbeats},
		{Group: sinkGroup, Topic: schemas.Transitions},
		{Group: projectorGroup, Topic: schemas.Transitions},
		{Group: seenGroup, Topic: schemas.SeenHints},
		{Group: unsureGroup, Topic: schemas.Statuses},
		{Group: publishGroup, Topic: schemas.Transitions},
		{Group: plannerGroup, Topic: schemas.Transitions},
		{Group: workerGroup, Topic: schemas.Fanout},
		{Group: liveGroup, Topic: schemas.Deliveries},
		{Group: graphGroup, Topic: schemas.Graph},
	}
	if text {
		groups = append(groups, ConsoleGroup{Group: namesGroup, Topic: schemas.Names})
	}
	return groups
}

// RoleOfGroup is the role whose processes are members of a group; empty for other groups.
func RoleOfGroup(group string) string {
	switch {
	case group == detectorGroup:
		return "detector"
	case strings.HasPrefix(group, "stillhere.lastseen."):
		return "lastseen"
	case strings.HasPrefix(group, "stillhere.fanout."), group == liveGroup:
		return "fanout"
	}
	return ""
}

// newConsole makes the console of a process that answers reads.
func newConsole(b *builder) (component, error) {
	current := new(atomic.Pointer[Config])
	current.Store(&b.config)
	console, err := b.config.Console(ConsoleParts{
		Role: b.role.Name, Config: b.config, Current: func() Config { return *current.Load() },
		Partitions: b.partitions, View: b.view, Store: b.store,
		Counts: func(topic schemas.Topic) func(*schemas.Record, *schemas.Frame) bool {
			return b.cluster.Keys.Counts(topic.Name(b.cluster.WithDefaults().Prefix), b.partitions)
		},
		Progress: func() []ConsoleProgress { return progressOf(b.kafkaMetrics.Status(), time.Now()) },
		Metrics:  b.registry, IsAdmin: isAdmin, Log: b.log,
		Checks: func(ctx context.Context) []ConsoleCheck {
			var all []ConsoleCheck
			for _, found := range runChecks(ctx, b.checks) {
				all = append(all, ConsoleCheck{Name: found.name, Needed: found.needed, Err: found.err})
			}
			return all
		},
	})
	if err != nil {
		return component{}, err
	}
	return component{
		services: []service{{"console", servers, console.Run}},
		routes:   []func(*http.ServeMux){console.Routes},
		onChange: []func(Config){func(c Config) { current.Store(&c) }},
	}, nil
}

// progressOf lists the partitions of the loops.
func progressOf(status []kafka.GroupStatus, now time.Time) (all []ConsoleProgress) {
	for _, g := range status {
		for _, p := range g.Partitions {
			one := ConsoleProgress{Group: g.Group, Partition: p.Partition, Phase: string(p.Phase), Lag: max(p.End-p.Offset, 0)}
			if behind, known := p.Lag(now); known {
				one.Behind = &behind
			}
			all = append(all, one)
		}
	}
	return all
}
