package app

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/origin"
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
	Cluster kafka.Config
	// Partitions is how many presence.heartbeats has.
	Partitions int32
	View       *redisview.View
	Store      store.Reader
	Producer   *kafka.Producer
	// Origin distinguishes records of the detector from forged ones.
	Origin *origin.Origin
	// Status is the progress of the consumer loops of this process.
	Status func() []kafka.GroupStatus
	// Metrics are those of this process.
	Metrics prometheus.Gatherer
	// Checks runs the readiness checks of this process.
	Checks func(context.Context) []ConsoleCheck
	// IsAdmin reports whether a request has the token of an administrator.
	IsAdmin func(*http.Request) bool
	// Watchers is how many viewers of this process watch a user.
	Watchers func(schemas.UserID) int
	Log      *slog.Logger
}

// ConsoleCheck is the result of a readiness check.
type ConsoleCheck struct {
	Name   string
	Needed bool // without it the process is not ready
	Err    error
}

// ConsoleGroups are the consumer groups of a pipeline with the topics that they read, those of
// channels aside.
func ConsoleGroups(text bool) []admin.GroupInput {
	groups := []admin.GroupInput{
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
		groups = append(groups, admin.GroupInput{Group: namesGroup, Topic: schemas.Names})
	}
	return groups
}

// LiveSuffix follows the instance name of the members of the group of live deliveries that are processes
// of the role fanout.
const LiveSuffix = ".fanout"

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
	from, err := b.useOrigin()
	if err != nil {
		return component{}, err
	}
	current := new(atomic.Pointer[Config])
	current.Store(&b.config)
	console, err := b.config.Console(ConsoleParts{
		Role: b.role.Name, Config: b.config, Current: func() Config { return *current.Load() }, Cluster: b.cluster,
		Partitions: b.partitions, View: b.view, Store: b.store, Producer: b.producer, Origin: from,
		Status: b.kafkaMetrics.Status, Metrics: b.registry, IsAdmin: isAdmin, Watchers: b.stream.Watchers, Log: b.log,
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
