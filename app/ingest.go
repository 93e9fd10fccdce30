package app

import (
	"context"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/ingest/httpgate"
	"github.com/stillhere/stillhere/ingest/socketgate"
	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/shown"
)

// newIngest takes heartbeats over HTTP and WebSocket and writes them to Kafka. erased is nil with --ids int. open lets a
// socket watch users; nil: sockets only send beats.
func (b *builder) newIngest(erased *shown.Erasures, open socketgate.OpenStream) (c component, err error) {
	config, metrics := b.config.Ingest, ingest.NewMetrics(b.registry)
	config.Users = b.cluster.Users
	gate, err := httpgate.New(config, b.producer, metrics)
	if err != nil {
		return c, err
	}
	gate.Erases(func(ctx context.Context) (admin.Copies, error) { return admin.LastCopies(ctx, b.cluster) })
	gateway := func(of Config) beat.Config { // of the sockets of this process
		c := of.Ingest.Config
		c.Metrics, c.Log = metrics.Metrics, b.log
		return c
	}
	beats, err := beat.New(gateway(b.config), b.producer)
	if err != nil {
		return c, err
	}
	sockets, err := socketgate.New(config, beats, open, metrics)
	if err != nil {
		return c, err
	}
	sockets.LimitPerUser(b.useQuota())
	gate.BoundTenants(b.accounts)
	sockets.BoundTenants(b.accounts)
	c.routes = append(c.routes, gate.Routes, sockets.Routes)
	c.services = []service{
		{"HTTP gate", buffers, gate.Run},
		{"gateway client", buffers, func(ctx context.Context) error { return closeGateway(ctx, beats) }},
		{"socket gate", servers, sockets.Run},
	}
	if erased != nil {
		c.services = append(c.services, service{"erasures", loops, func(ctx context.Context) error {
			return erased.Run(ctx, beats.Erased)
		}})
	}
	c.onRestart = append(c.onRestart, beats.Restarted, gate.Restarted)
	for _, restarted := range c.onRestart {
		restarted(b.restarts)
	}
	c.onChange = []func(Config){
		func(of Config) { gate.Follow(of.Ingest) },
		func(of Config) { beats.Follow(gateway(of)) },
		func(of Config) { sockets.Follow(of.Ingest) },
	}
	return c, nil
}

// closeGateway waits for the end of ctx and closes the gateway's buffer, which sends what it still
// holds.
func closeGateway(ctx context.Context, beats *beat.Buffer) error {
	<-ctx.Done()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return beats.Close(bounded)
}
