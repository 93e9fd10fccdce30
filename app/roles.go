package app

import (
	"context"
)

// Role is a part of the pipeline that can run as a process of its own.
type Role struct {
	Name string
	// http: it serves clients over HTTP. redis, store: it needs them. framed: it writes
	// values that a Schema Registry may frame. signs: it writes heartbeats.
	http, redis, store, framed, signs bool
	// needs are the checks without which the role cannot do its own job, first those that
	// have to pass once before it is ready. Without the others it is degraded.
	needs, first []string
	build        func(context.Context, *builder) error
}

var followerLoops = []string{"publisher", "follower planner", "follower worker"}

// Roles are all roles, in the order of the data flow.
var Roles = []Role{
	{Name: "ingest", http: true, signs: true, needs: []string{"kafka", "auth"}, build: buildIngest},
	{Name: "detector", framed: true, signs: true, needs: []string{"kafka", "detector"}, build: buildDetector},
	{Name: "lastseen", redis: true, store: true, needs: []string{"kafka", "redis", "store", "sink", "projector"}, build: buildLastseen},
	{Name: "fanout", redis: true, framed: true, needs: append([]string{"kafka", "redis", "follower graph"}, followerLoops...), build: buildFanout},
	{Name: "api", http: true, redis: true, store: true, needs: []string{"auth", "reads"}, build: buildAPI},
	{Name: "all", http: true, redis: true, store: true, framed: true, signs: true, needs: []string{"kafka", "auth"},
		first: append([]string{"detector", "sink", "projector"}, followerLoops...), build: buildAll},
}

// buildIngest builds the endpoints that take heartbeats. With Redis and a store, a socket
// that sends beats can watch users as well.
func buildIngest(ctx context.Context, b *builder) error {
	deps := ingestDeps{base: b.base, metrics: b.useIngestMetrics(), quota: b.useQuota()}
	var err error
	if deps.erased, err = b.openErasures(ctx); err != nil {
		return err
	}
	if b.config.watches() {
		stream, err := b.useStream(ctx)
		if err != nil {
			return err
		}
		deps.openStream = stream.Open
		if err := b.boundOnline(ctx); err != nil {
			return err
		}
	}
	return b.add(newIngest(deps))
}

// buildDetector builds the loop that decides who is online, away or offline.
func buildDetector(ctx context.Context, b *builder) error { return b.add(newDetector(ctx, b.base)) }

// buildLastseen builds the loops that keep the durable store and Redis up to date.
func buildLastseen(ctx context.Context, b *builder) error {
	deps := lastseenDeps{base: b.base, metrics: b.useLastseenMetrics()}
	var err error
	if deps.store, err = b.useStore(ctx); err != nil {
		return err
	}
	if deps.view, err = b.useView(); err != nil {
		return err
	}
	if deps.bus, err = b.useBus(); err != nil {
		return err
	}
	if deps.origin, err = b.useOrigin(); err != nil {
		return err
	}
	if b.config.Graph != (Store{}) {
		if deps.graph, err = b.useGraph(ctx); err != nil {
			return err
		}
	}
	return b.add(newLastseen(deps))
}

// buildFanout builds the loops that publish changes to viewers and to followers.
func buildFanout(ctx context.Context, b *builder) error {
	deps := fanoutDeps{base: b.base, metrics: b.useFanoutMetrics()}
	var err error
	if deps.bus, err = b.useBus(); err != nil {
		return err
	}
	if b.view == nil { // its check would look at the same Redis
		if err := b.add(component{checks: []check{{name: "redis", ready: deps.bus.Ping}}}, nil); err != nil {
			return err
		}
	}
	if deps.origin, err = b.useOrigin(); err != nil {
		return err
	}
	if err := b.add(newFanout(deps)); err != nil || !b.config.followers() && !b.config.GraphTopic {
		return err
	}
	if deps.graph, err = b.useGraph(ctx); err != nil {
		return err
	}
	if b.config.GraphTopic {
		if err := b.add(newGraphTopic(b.base, deps.graph), nil); err != nil {
			return err
		}
	}
	if !b.config.followers() {
		return nil
	}
	return b.add(newFollowerFanout(ctx, deps))
}

// buildAPI builds the endpoints of reads and of the live stream.
func buildAPI(ctx context.Context, b *builder) error {
	deps := apiDeps{base: b.base}
	var err error
	if deps.reader, err = b.useReader(ctx); err != nil {
		return err
	}
	if deps.access, err = b.useDecision(ctx); err != nil {
		return err
	}
	if deps.stream, err = b.useStream(ctx); err != nil {
		return err
	}
	deps.view, deps.store, deps.keys = b.view, b.store, b.keys
	if b.config.Graph != (Store{}) {
		if deps.graph, err = b.useGraph(ctx); err != nil {
			return err
		}
	}
	if err := b.add(newAPI(deps)); err != nil {
		return err
	}
	if b.config.Console != nil {
		if err := b.add(newConsole(b)); err != nil {
			return err
		}
	}
	if deps.graph == nil {
		return nil
	}
	return b.add(newGraphEndpoints(b.base, deps.graph), nil)
}

// buildAll builds every role in one process.
func buildAll(ctx context.Context, b *builder) error {
	for _, build := range []func(context.Context, *builder) error{buildDetector, buildLastseen, buildFanout, buildIngest, buildAPI} {
		if err := build(ctx, b); err != nil {
			return err
		}
	}
	return nil
}
