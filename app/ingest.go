package app

import (
	"context"
	"errors"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/ingest/httpgate"
	"github.com/stillhere/stillhere/ingest/socketgate"
	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/quota"
)

type ingestDeps struct {
	base
	metrics *ingest.Metrics
	quota   *quota.Quota
	// openStream lets a socket watch users; nil: sockets only send beats.
	openStream socketgate.OpenStream
}

// newIngest takes heartbeats over HTTP and WebSocket and writes them to Kafka.
func newIngest(d ingestDeps) (c component, err error) {
	gate, err := httpgate.New(d.config.Ingest, d.producer, d.metrics)
	if err != nil {
		return c, err
	}
	beats, err := beat.New(d.gateway(d.config), d.producer)
	if err != nil {
		return c, err
	}
	sockets, err := socketgate.New(d.config.Ingest, beats, d.openStream, d.metrics)
	if err != nil {
		return c, err
	}
	sockets.LimitPerUser(d.quota)
	c.routes = append(c.routes, gate.Routes, sockets.Routes)
	c.services = []service{
		{"HTTP gate", buffers, gate.Run},
		{"gateway client", buffers, func(ctx context.Context) error { return runGateway(ctx, beats) }},
		{"socket gate", servers, sockets.Run},
	}
	c.onPolicy = []func(Config){
		func(of Config) { gate.Follow(of.Ingest) },
		func(of Config) { beats.Follow(d.gateway(of)) },
		func(of Config) { sockets.Follow(of.Ingest) },
	}
	return c, nil
}

// gateway makes this process the gateway of its sockets.
func (d ingestDeps) gateway(of Config) beat.Config {
	c := beat.Config{
		GatewayID: of.Ingest.GatewayID, Partitions: d.partitions, HeartbeatInterval: of.Policy.HeartbeatInterval,
		AliveInterval: of.Ingest.AliveInterval, ForgetAfter: of.Ingest.ForgetAfter,
		AppendTimeout: of.Ingest.AppendTimeout, Metrics: d.metrics.Metrics, Log: d.log,
	}
	if idle := of.Policy.IdleAfter; idle > 0 {
		c.ActiveAfterIdle = min(time.Minute, idle)
	}
	return c
}

// runGateway runs the gateway client. When ctx ends, it closes the client, which sends
// what it still holds.
func runGateway(ctx context.Context, c *beat.Buffer) error {
	ended := make(chan error, 1)
	go func() { ended <- c.Run(context.WithoutCancel(ctx)) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err := c.Close(bounded)
	return errors.Join(err, <-ended)
}
