package app

import (
	"context"
	"fmt"

	"github.com/stillhere/stillhere/ingest/socketgate"
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

// roleOf is the role of that name.
func roleOf(name string) (Role, error) {
	for _, r := range Roles {
		if r.Name == name {
			return r, nil
		}
	}
	return Role{}, fmt.Errorf("there is no role %q", name)
}

// buildIngest builds the endpoints that take heartbeats. With Redis and a store, a socket
// that sends beats can watch users as well.
func buildIngest(ctx context.Context, b *builder) error {
	erased, err := b.openErasures(ctx)
	if err != nil {
		return err
	}
	var open socketgate.OpenStream
	if b.config.watches() {
		if err := b.use(ctx, b.useStream, b.boundOnline); err != nil {
			return err
		}
		open = b.stream.Open
	}
	return b.add(b.newIngest(erased, open))
}

// buildDetector builds the loop that decides who is online, away or offline.
func buildDetector(ctx context.Context, b *builder) error { return b.add(newDetector(ctx, b.base)) }

// buildLastseen builds the loops that keep the durable store and Redis up to date.
func buildLastseen(ctx context.Context, b *builder) error {
	if err := b.use(ctx, b.useStore, b.useView, b.useBus, b.useOrigin, b.useGraphIfAny); err != nil {
		return err
	}
	return b.add(b.newLastseen())
}

// buildFanout builds the loops that publish changes to viewers and to followers.
func buildFanout(ctx context.Context, b *builder) error {
	if err := b.use(ctx, b.useBus, b.useView, b.useOrigin); err != nil {
		return err
	}
	if err := b.add(b.newFanout(), nil); err != nil || !b.config.followers() && !b.config.GraphTopic {
		return err
	}
	if err := b.useGraph(ctx); err != nil {
		return err
	}
	if b.config.GraphTopic {
		if err := b.add(newGraphTopic(b.base, b.graph), nil); err != nil {
			return err
		}
	}
	if !b.config.followers() {
		return nil
	}
	return b.add(b.newFollowerFanout(ctx))
}

// buildAPI builds the endpoints of reads and of the live stream.
func buildAPI(ctx context.Context, b *builder) error {
	if err := b.use(ctx, b.useStream, b.useGraphIfAny); err != nil {
		return err
	}
	if err := b.add(b.newAPI()); err != nil {
		return err
	}
	if b.config.Console != nil {
		if err := b.add(newConsole(b)); err != nil {
			return err
		}
	}
	if b.graph == nil {
		return nil
	}
	return b.add(newGraphEndpoints(b.base, b.graph), nil)
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
