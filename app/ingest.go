package app

import (
	"context"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/ingest/httpgate"
	"github.com/stillhere/stillhere/ingest/socketgate"
	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/quota"
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/schemas"
)

type ingestDeps struct {
	base
	metrics *ingest.Metrics
	quota   *quota.Quota[schemas.UserID]
	erased  *shown.Erasures // nil with --ids int
	// openStream lets a socket watch users; nil: sockets only send beats.
	openStream socketgate.OpenStream
}

// newIngest takes heartbeats over HTTP and WebSocket and writes them to Kafka.
func newIngest(d ingestDeps) (c component, err error) {
	d.config.Ingest.Users = d.cluster.Users
	gate, err := httpgate.New(d.config.Ingest, d.producer, d.metrics)
	if err != nil {
		return c, err
	}
	gate.Erases(func(ctx context.Context) (admin.Copies, error) { return admin.LastCopies(ctx, d.cluster) })
	beats, err := beat.New(d.gateway(d.config), d.producer)
	if err != nil {
		return c, err
	}
	sockets, err := socketgate.New(d.config.Ingest, beats, d.openStream, d.metrics)
	if err != nil {
		return c, err
	}
	sockets.LimitPerUser(d.quota)
	gate.BoundTenants(d.accounts)
	sockets.BoundTenants(d.accounts)
	c.routes = append(c.routes, gate.Routes, sockets.Routes)
	c.services = []service{
		{"HTTP gate", buffers, gate.Run},
		{"gateway client", buffers, func(ctx context.Context) error { return closeGateway(ctx, beats) }},
		{"socket gate", servers, sockets.Run},
	}
	if d.erased != nil {
		c.services = append(c.services, service{"erasures", loops, func(ctx context.Context) error {
			return d.erased.Run(ctx, beats.Erased)
		}})
	}
	c.onChange = []func(Config){
		func(of Config) { gate.Follow(of.Ingest) },
		func(of Config) { beats.Follow(d.gateway(of)) },
		func(of Config) { sockets.Follow(of.Ingest) },
	}
	return c, nil
}

// gateway makes this process the gateway of its sockets.
func (d ingestDeps) gateway(of Config) beat.Config {
	c := of.Ingest.Config
	c.Metrics, c.Log = d.metrics.Metrics, d.log
	return c
}

// closeGateway waits for the end of ctx and closes the gateway's buffer, which sends what it still
// holds.
func closeGateway(ctx context.Context, b *beat.Buffer) error {
	<-ctx.Done()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return b.Close(bounded)
}
