// Package gateway is what a gateway written in Go embeds to say who is connected to it.
//
//	g, err := gateway.Dial(ctx, gateway.Config{Brokers: []string{"kafka:9092"}, ID: "gw-1"})
//	…
//	k, err := g.Connect(user, device, kind, 0) // from any goroutine: a connection opens
//	k.Beat(idle)                               // as often as the device beats
//	k.Bye()                                    // it was closed on purpose; k.Drop() when it was lost
//	g.Close(ctx)                               // sends what is held and says that the gateway drains
//
// Connections are counted: a device leaves when the last of its connections says bye.
package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// Config says who the gateway is and where Kafka is. Brokers and ID are needed.
type Config struct {
	// Brokers are bootstrap addresses, host:port.
	Brokers []string
	// ID is unique among running gateways, at most 128 bytes, and the same after a
	// restart.
	ID schemas.GatewayID
	// TopicPrefix is what the names of topics begin with ["presence."].
	TopicPrefix string
	// HeartbeatInterval is how often devices beat [15s]; that of the detector.
	HeartbeatInterval time.Duration
	// ForgetAfter is how long a silent device is remembered [1m]. Not less than the
	// detector's online_ttl + offline_debounce.
	ForgetAfter time.Duration
	// TLS is nil for plain text. SASL is "", PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
	TLS            *tls.Config
	SASL           string
	User, Password string

	Log      *slog.Logger          // nil: slog.Default()
	Registry prometheus.Registerer // nil: no metrics
}

// Gateway reports who is connected: see client.Client for Connect, Beat and Bye, which
// may be called from any goroutine. It sends from the first report until Close, which
// must be called.
type Gateway struct {
	*beat.Buffer
	producer *kafka.Producer
}

// appendTimeout is how long Kafka has to take a frame; what it has not taken by
// then is sent again, with its true age.
const appendTimeout = 5 * time.Second

// Dial connects to Kafka and learns how many partitions there are; ctx bounds
// that.
func Dial(ctx context.Context, c Config) (*Gateway, error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	config := kafka.Config{Brokers: c.Brokers, Prefix: c.TopicPrefix, ClientID: "stillhere-gateway", DeliveryTimeout: appendTimeout}
	if c.TLS != nil || c.SASL != "" {
		config.Security = &kafka.Security{TLS: c.TLS, Mechanism: c.SASL, User: c.User, Password: c.Password}
	}
	producer, err := kafka.NewProducer(config, c.Log, nil)
	if err != nil {
		return nil, fmt.Errorf("connecting gateway %s: %w", c.ID, err)
	}
	g, err := dial(ctx, c, producer)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connecting gateway %s: %w", c.ID, err), producer.Close(ctx))
	}
	return g, nil
}

func dial(ctx context.Context, c Config, producer *kafka.Producer) (*Gateway, error) {
	partitions, err := producer.Partitions(ctx, schemas.Heartbeats)
	if err != nil {
		return nil, err
	}
	beats, err := beat.New(beat.Config{
		GatewayID: c.ID, Partitions: partitions, HeartbeatInterval: c.HeartbeatInterval, ForgetAfter: c.ForgetAfter,
		AppendTimeout: appendTimeout, Metrics: beat.NewMetrics(c.Registry), Log: c.Log,
	}, producer)
	if err != nil {
		return nil, err
	}
	return &Gateway{Buffer: beats, producer: producer}, nil
}

// Close ends the gateway in good order: it writes what is held, tells the detector
// that the gateway drains, so that its users get time to reconnect elsewhere, and
// disconnects. The error says how many reports are not known to be written when
// ctx ended first.
func (g *Gateway) Close(ctx context.Context) error {
	return errors.Join(g.Buffer.Close(ctx), g.producer.Close(ctx))
}
