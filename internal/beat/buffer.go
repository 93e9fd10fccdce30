package beat

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/internal/coalesce"
	"github.com/stillhere/stillhere/internal/devices"
	"github.com/stillhere/stillhere/schemas"
)

// ErrClosed says that the client is closing and takes no more reports.
var ErrClosed = errors.New("the presence client is closed")

// ErrFull says that a new device was refused because MaxDevices are known.
var ErrFull = coalesce.ErrFull

// maxInFlight is how many frames to one partition may be unanswered: enough to
// keep a connection to Kafka busy, few enough that what an outage leaves with
// the producer is little.
const maxInFlight = 8

// Buffer reports the devices of one gateway. It sends from the first report until
// Close, which must be called. All its methods may be called from any goroutine; Run
// and Close once each.
type Buffer struct {
	cfg    Config
	log    Log
	start  time.Time // the origin of all times in the queues
	epoch  schemas.Millis
	shards []shard

	// wake says that some shard is in a hurry, or while closing that something
	// was answered.
	wake     chan struct{}
	interval atomic.Int64    // nanoseconds; HeartbeatInterval as it is now
	base     context.Context // of all appends
	giveUp   context.CancelFunc
	devices  *devices.Registry

	looping  context.Context // of the loop that sends
	stopLoop context.CancelFunc
	started  atomic.Bool   // the loop has begun, or never will
	life     sync.Mutex    // protects running and ran
	running  chan struct{} // closed when the loop has ended; nil when it never began
	ran      bool          // Run was called

	closing chan struct{} // closed when Close begins
	closed  atomic.Bool
	failed  atomic.Bool // while closing: something was not written since it was last asked
}

// shard is one partition.
type shard struct {
	mu      sync.Mutex // protects the fields below; never held while appending
	queue   *coalesce.Queue
	closed  bool // no more reports
	drained bool // the draining frame is in the log

	hurry atomic.Bool // the queue has something that should leave at once
}

// New makes a client; its epoch is now.
func New(cfg Config, log Log) (*Buffer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	share := cfg.MaxDevices / int(cfg.Partitions)
	c := &Buffer{
		cfg: cfg, log: log, start: time.Now(), shards: make([]shard, cfg.Partitions),
		wake: make(chan struct{}, 1), closing: make(chan struct{}), devices: devices.NewRegistry(),
	}
	c.epoch = schemas.MillisOf(c.start)
	c.interval.Store(int64(cfg.HeartbeatInterval))
	c.base, c.giveUp = context.WithCancel(context.Background())
	c.looping, c.stopLoop = context.WithCancel(context.Background())
	for i := range c.shards {
		c.shards[i].queue = coalesce.New(coalesce.Rules{
			HeartbeatInterval: cfg.HeartbeatInterval, ActiveAfterIdle: cfg.ActiveAfterIdle, ForgetAfter: cfg.ForgetAfter,
			MaxDevices: share + share/2 + 1, MaxInFlight: maxInFlight,
		})
	}
	return c, nil
}

// Follow takes over HeartbeatInterval, ActiveAfterIdle and ForgetAfter of cfg, as when the
// detector's policy was changed. It may be called from any goroutine.
func (c *Buffer) Follow(cfg Config) {
	cfg = cfg.withDefaults()
	c.interval.Store(int64(cfg.HeartbeatInterval))
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.queue.Follow(cfg.HeartbeatInterval, cfg.ActiveAfterIdle, cfg.ForgetAfter)
		s.mu.Unlock()
	}
}

// Epoch is when this gateway started; it goes with every frame.
func (c *Buffer) Epoch() schemas.Millis { return c.epoch }

// Beat reports that a device is here and that its person last touched it idle
// ago; 0 means is active now. More than 30 days count as 30 days. It returns a
// *schemas.FieldError when an id is out of range, ErrFull or ErrClosed; nothing
// is reported then. It never blocks on Kafka.
func (c *Buffer) Beat(user schemas.UserID, device schemas.DeviceID, kind schemas.DeviceKind, idle time.Duration) error {
	return c.report(coalesce.Report{
		User: user, Device: device, Kind: schemas.KnownKind(kind),
		Idle: min(schemas.Millis(max(idle, 0)/time.Millisecond), schemas.MaxIdle),
	})
}

// Bye reports that a device has left on purpose. Errors are those of Beat.
func (c *Buffer) Bye(user schemas.UserID, device schemas.DeviceID) error {
	return c.report(coalesce.Report{User: user, Device: device, Kind: schemas.Other, Bye: true})
}

func (c *Buffer) report(r coalesce.Report) error {
	if !r.User.Valid() || r.Device == 0 {
		return outOfRange(r)
	}
	if !c.started.Load() {
		c.begin()
	}
	s := &c.shards[schemas.PartitionOf(r.User, c.cfg.Partitions)]
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	hurry, err := s.queue.Add(c.now(), r)
	s.mu.Unlock()
	if hurry {
		c.nudge(s)
	}
	return err
}

func outOfRange(r coalesce.Report) error {
	if _, err := schemas.ParseUserID("user_id", r.User.String()); err != nil {
		return err
	}
	_, err := schemas.ParseDeviceID("device_id", strconv.FormatUint(uint64(r.Device), 10))
	return err
}

// nudge makes Run look at s soon.
func (c *Buffer) nudge(s *shard) {
	if s.hurry.Swap(true) {
		return
	}
	c.signal()
}

func (c *Buffer) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *Buffer) now() time.Duration { return time.Since(c.start) }
