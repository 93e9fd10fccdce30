// Package gateway reports which devices are connected to a gateway written in Go. It writes the
// reports directly to Kafka.
//
//	g, err := gateway.Dial(ctx, gateway.Config{Kafka: client.Kafka{Brokers: brokers}, ID: "gw-1"})
//	…
//	k, err := g.Connect("42", "7", schemas.Mobile, 0) // a connection opens
//	k.Idle(since)                                     // its person does not use the device; k.Active() again
//	k.Close()                                         // it was closed on purpose; k.Lost() when it broke
//	g.Close(ctx)                                      // send the remaining reports, and announce the stop
//
// A device is present while one of its connections is open and this gateway runs: nothing has to be repeated. A gateway
// that knows no connections calls g.Beat as often as its devices beat (see Schedule), and g.Bye.
//
// Users and their devices are given by name. With --ids int that is their number in decimal; with
// --ids text it is any text of 1 to 128 bytes, the Config needs the identity key, and g.Tenant("acme")
// reports the users of a tenant.
//
// All of these only write into memory. Reports that can change a state are sent within 10 ms, the
// others with the next flush, one frame per partition. A device that beats a thousand times a
// second costs one row per flush. While Kafka is unreachable the gateway keeps the newest report of
// each device and retries. The reports arrive later with their true ages.
//
// After a kill -9 at most one flush of reports is lost, and no user goes offline because of it.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/internal/connect"
	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/schemas"
)

// Errors of reports, besides a *schemas.FieldError for what no user or device can be called.
var (
	// ErrClosed says that the gateway is closing and takes no more reports.
	ErrClosed = beat.ErrClosed
	// ErrFull says that a new device was refused because Config.MaxDevices are known.
	ErrFull = beat.ErrFull
)

// Config configures a Gateway. Kafka and ID are required.
type Config struct {
	Kafka client.Kafka
	// ID is unique among running gateways, at most 128 bytes, and the same after a
	// restart.
	ID schemas.GatewayID
	// HeartbeatInterval is how often devices beat [that of the policy in force, 15s while none is
	// known]. Without a value it follows changes of the policy, and of the policies of tenants, as Schedule
	// does.
	HeartbeatInterval time.Duration
	// FlushInterval is how often repeated reports are sent [1s].
	FlushInterval time.Duration
	// ForgetAfter is how long a silent device is remembered [1m, at least four heartbeat intervals
	// and the policy's online_ttl + offline_debounce].
	ForgetAfter time.Duration
	// ActiveAfterIdle: a device that is touched for the first time in so long is reported at once
	// [1m, at most the policy's idle_after].
	ActiveAfterIdle time.Duration
	// MaxDevices bounds the devices that are remembered [1,000,000].
	MaxDevices int
	// IdentityKeyFile is a file with the pipeline's identity key (32 hexadecimal digits), and
	// IdentityKey the key itself: one of them, if the pipeline runs with --ids text.
	IdentityKeyFile, IdentityKey string
	// KeyFile is a file with the key of this gateway, as "stillhere keys gateway ID" prints it, and Key the key
	// itself: one of them, if the pipeline takes signed heartbeats only. The file is read again every 10 s, so a
	// key is replaced without a restart.
	KeyFile, Key string
	// Log is where the gateway logs [slog.Default].
	Log *slog.Logger
	// Registry is where metrics are registered; nil: nowhere.
	Registry prometheus.Registerer
}

// appendTimeout is how long Kafka has to acknowledge a frame. Reports that are not acknowledged by
// then are sent again, with their true ages.
const appendTimeout = 5 * time.Second

func (c Config) buffer(partitions int32) beat.Config {
	return beat.Config{GatewayID: c.ID, Partitions: partitions, HeartbeatInterval: c.HeartbeatInterval,
		FlushInterval: c.FlushInterval, ActiveAfterIdle: c.ActiveAfterIdle, ForgetAfter: c.ForgetAfter,
		MaxDevices: c.MaxDevices, AppendTimeout: appendTimeout, Log: c.Log}
}

// Validate reports all faults, joined.
func (c Config) Validate() error {
	_, err := c.users()
	_, unsigned := c.keys()
	return errors.Join(c.Kafka.Validate(), c.buffer(1).Validate(), err, unsigned)
}

// Gateway reports which devices are connected. Its Users are those of the default tenant. All methods may be
// called from any goroutine. It sends from the first report until Close, which must be called.
type Gateway struct {
	Users

	buffer   *beat.Buffer
	producer *kafka.Producer
	config   Config
	users    identity.Users
	keys     *signing.Keys // nil: frames are not signed
	schedule atomic.Pointer[schedules]
	unfollow func() // stops following the policies, and waits

	mu      sync.Mutex // protects what follows; held while the buffer applies it
	inForce schemas.Policy
	tenants map[string]*schemas.Policy // never changed
}

// Dial connects to Kafka and reads the number of partitions. ctx bounds that.
func Dial(ctx context.Context, c Config) (*Gateway, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	g, err := dial(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("connecting gateway %s: %w", c.ID, err)
	}
	return g, nil
}

func dial(ctx context.Context, c Config) (*Gateway, error) {
	cluster, err := connect.Kafka(c.Kafka, "stillhere-gateway")
	if err != nil {
		return nil, err
	}
	cluster.DeliveryTimeout = appendTimeout
	if cluster.Users, err = c.users(); err != nil {
		return nil, err
	}
	if cluster.Keys, err = c.keys(); err != nil {
		return nil, err
	}
	if err := checkIdentity(ctx, cluster); err != nil {
		return nil, err
	}
	producer, err := kafka.NewProducer(cluster, c.Log, nil)
	if err != nil {
		return nil, err
	}
	partitions, err := producer.Partitions(ctx, schemas.Heartbeats)
	if err == nil {
		_, err = producer.Partitions(ctx, schemas.Gateways)
	}
	if err != nil {
		return nil, errors.Join(err, producer.Close(ctx))
	}
	g := &Gateway{producer: producer, config: c, users: cluster.Users, keys: cluster.Keys, unfollow: func() {}}
	g.gateway = g
	all, lookErr := policy.InForce(ctx, cluster)
	inForce, known := policy.Newest(all)
	if !known {
		inForce = schemas.DefaultPolicy()
	}
	of, err := g.ofTenants(ctx, cluster)
	if err != nil {
		return nil, errors.Join(err, producer.Close(ctx))
	}
	g.inForce = inForce
	settings := g.under()
	settings.Partitions, settings.Metrics = partitions, beat.NewMetrics(c.Registry)
	if g.buffer, err = beat.New(settings, producer); err != nil {
		of.close()
		return nil, errors.Join(err, producer.Close(ctx))
	}
	g.buffer.Restarted(policy.LossyRestarts(all))
	rotate := func(ctx context.Context) { cluster.Keys.Follow(ctx, keysEvery, c.Log) }
	if kafka.IsUnauthorized(lookErr) {
		c.Log.Warn("the policy in force is unknown, so the gateway uses its own settings: allow its Kafka user to describe the detector's group",
			"gateway", c.ID, "error", lookErr)
		g.follow(of, rotate)
		return g, nil
	}
	g.follow(of, rotate, func(ctx context.Context) {
		policy.Watch(ctx, cluster, known, func(all []policy.Partition, err error) {
			if err != nil {
				c.Log.Warn("looking up the policy in force", "gateway", c.ID, "error", err)
			}
			g.buffer.Restarted(policy.LossyRestarts(all))
			if inForce, ok := policy.Newest(all); ok {
				g.change(func() { g.inForce = inForce })
			}
		})
	})
	return g, nil
}

// Close stops the gateway in order: it writes the remaining reports, announces that the gateway
// drains, so that its users get time to reconnect elsewhere, and disconnects. If ctx ends first,
// the error says how many reports may be lost.
func (g *Gateway) Close(ctx context.Context) error {
	g.unfollow()
	return errors.Join(g.buffer.Close(ctx), g.producer.Close(ctx))
}

// Connection is one connection of a device. End it with Close or Lost; after that the other methods do nothing. All
// methods may be called from any goroutine, and only write into memory; errors are those of Users.Beat.
type Connection struct{ counted *beat.Connection }

// Active reports that the person uses the device, from now until Idle.
func (k *Connection) Active() error { return k.counted.Beat(0) }

// Idle reports that the person last touched the device so long ago; 0 is use.
func (k *Connection) Idle(since time.Duration) error { return k.counted.Beat(since) }

// Close ends a connection that was closed on purpose. The device leaves if it has no other to this gateway.
func (k *Connection) Close() error { return k.counted.Bye() }

// Lost ends a connection that broke now. The detector waits for the device to return.
func (k *Connection) Lost() error {
	k.counted.Hear()
	return k.counted.Drop()
}
