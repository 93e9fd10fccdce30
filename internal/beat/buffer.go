package beat

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/internal/coalesce"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/schemas"
)

// ErrClosed says that the buffer is closing and takes no more reports.
var ErrClosed = errors.New("the presence client is closed")

// ErrFull says that a new device was refused because MaxDevices are known.
var ErrFull = coalesce.ErrFull

// maxInFlight is how many frames to one partition may be unacknowledged: enough to keep a
// connection to Kafka busy, few enough that an outage leaves little with the producer.
const maxInFlight = 8

// maxErased is how many erased users a buffer remembers, for five minutes each: some 10 MB. Each partition has
// an equal share of it; if more of its users are erased, all its devices tell their names once more.
const maxErased = 1 << 18

// Buffer reports the devices of one gateway. It sends from the first report until Close, which
// must be called. All its methods may be called from any goroutine.
type Buffer struct {
	cfg     Config
	log     Appender
	started time.Time // the origin of all times in the queues
	epoch   schemas.Millis
	shards  []shard
	devices *Registry

	// wake gets a value when some shard has an urgent report, and while closing when Kafka has
	// answered.
	wake   chan struct{}
	base   context.Context // of all appends
	giveUp context.CancelFunc

	start   sync.Once     // of the goroutine that sends
	stopped chan struct{} // closed when that has ended
	closing chan struct{} // closed when Close begins
	closed  atomic.Bool
	failed  atomic.Bool // while closing: a frame was not acknowledged since the last look

	restarts      policy.Restarts // of the goroutine that calls Restarted
	aliveSent     time.Duration   // the last frame that says that the gateway is there; of the goroutine that sends
	aliveInFlight atomic.Bool
	aliveWritten  atomic.Int64 // nanoseconds since started: the newest acknowledged one
	reportAgain   atomic.Int64 // Config.ReportAgainAfter
}

// shard is one partition.
type shard struct {
	mu      sync.Mutex // protects the fields below; never held while appending
	queue   *coalesce.Queue
	closed  bool // takes no more reports
	drained bool // the draining frame is in the log

	hurry atomic.Bool // the queue has a report that should be sent at once
}

// New makes a buffer. The epoch of the gateway is now.
func New(cfg Config, log Appender) (*Buffer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil)
	}
	b := &Buffer{
		cfg: cfg, log: log, started: time.Now(), shards: make([]shard, cfg.Partitions),
		aliveSent: -cfg.AliveInterval,
		wake:      make(chan struct{}, 1), stopped: make(chan struct{}), closing: make(chan struct{}),
	}
	b.epoch = schemas.MillisOf(b.started)
	b.reportAgain.Store(int64(cfg.ReportAgainAfter))
	b.devices = NewRegistry(b)
	b.base, b.giveUp = context.WithCancel(context.Background())
	share := cfg.MaxDevices / int(cfg.Partitions)
	for i := range b.shards {
		rules := rulesOf(&cfg)
		rules.MaxDevices, rules.MaxInFlight = share+share/2+1, maxInFlight
		rules.MaxErased = max(1, maxErased/int(cfg.Partitions))
		b.shards[i].queue = coalesce.New(rules)
	}
	return b, nil
}

// rulesOf are the times of a queue.
func rulesOf(cfg *Config) coalesce.Rules {
	return coalesce.Rules{HeartbeatInterval: cfg.HeartbeatInterval, Intervals: cfg.Intervals, ActiveAfterIdle: cfg.ActiveAfterIdle,
		ForgetAfter: cfg.ForgetAfter, NameAfter: cfg.NameAfter, NameAlways: cfg.NameAlways}
}

// Follow applies HeartbeatInterval, Intervals, ActiveAfterIdle, ReportAgainAfter, ForgetAfter and NameAfter of cfg, as
// after a change of the detector's policy.
func (b *Buffer) Follow(cfg Config) {
	cfg = cfg.WithDefaults()
	b.reportAgain.Store(int64(cfg.ReportAgainAfter))
	b.each(func(s *shard) {
		s.queue.Follow(b.now(), rulesOf(&cfg))
	})
}

// Restarted takes what policy.LossyRestarts says. In partitions with a new one the detector has lost which connections
// are open, and they are reported again. The first call, before any report, says from where they count.
func (b *Buffer) Restarted(at map[int32]schemas.Millis) {
	for _, id := range b.restarts.Since(at) {
		if int(id) < len(b.shards) {
			s := &b.shards[id]
			s.mu.Lock()
			s.queue.ReportAgain(b.now())
			s.mu.Unlock()
		}
	}
}

// Erased says that Kafka has acknowledged erasures of users: their devices tell the users' names with their
// next beats.
func (b *Buffer) Erased(users []schemas.UserID) {
	for _, user := range users {
		s := &b.shards[schemas.PartitionOf(user, b.cfg.Partitions)]
		s.mu.Lock()
		s.queue.Erased(b.now(), user)
		s.mu.Unlock()
	}
}

// Epoch is when this gateway started. Every frame has it.
func (b *Buffer) Epoch() schemas.Millis { return b.epoch }

// Hold reports that the connection of a device is open, like Beat. Until Bye or Lost the device is present without
// further reports.
func (b *Buffer) Hold(
	user schemas.UserID, name *schemas.Name, device schemas.DeviceID, kind schemas.DeviceKind, idle time.Duration,
) error {
	return b.report(coalesce.Report{User: user, Name: name, Device: device, Kind: schemas.KnownKind(kind), Held: true,
		Idle: millisOf(idle)})
}

// Lost reports that the connection of a device broke, and that the device was heard last so long ago. Errors are those
// of Beat.
func (b *Buffer) Lost(user schemas.UserID, device schemas.DeviceID, ago time.Duration) error {
	return b.report(coalesce.Report{User: user, Device: device, Lost: true, Ago: max(ago, 0)})
}

// millisOf is an idle time of a frame.
func millisOf(idle time.Duration) schemas.Millis {
	return min(schemas.Millis(max(idle, 0)/time.Millisecond), schemas.MaxIdle)
}

// Beat reports that a device is online and that its person last touched it idle ago; 0: is active
// now. More than 30 days count as 30 days. name is nil with --ids int, and is not kept. It returns a
// *schemas.FieldError if an id is out of range, ErrFull or ErrClosed; then nothing is reported. It never
// waits for Kafka.
func (b *Buffer) Beat(user schemas.UserID, name *schemas.Name, device schemas.DeviceID, kind schemas.DeviceKind, idle time.Duration) error {
	return b.report(coalesce.Report{User: user, Name: name, Device: device, Kind: schemas.KnownKind(kind),
		Idle: millisOf(idle)})
}

// Bye reports that a device has left on purpose. Errors are those of Beat.
func (b *Buffer) Bye(user schemas.UserID, device schemas.DeviceID) error {
	return b.report(coalesce.Report{User: user, Device: device, Kind: schemas.Other, Bye: true})
}

// Connect reports that a device has opened a connection. It is present until that ends, without further reports. idle
// and the errors are those of Beat. After an error there is no connection. The buffer counts connections: a
// device with two open connections, say two tabs of a browser, leaves when the last one ends. name must not be
// changed while the connection is open.
func (b *Buffer) Connect(
	user schemas.UserID, name *schemas.Name, device schemas.DeviceID, kind schemas.DeviceKind, idle time.Duration,
) (*Connection, error) {
	k := b.devices.New(Device{User: user, ID: device}, name, kind)
	if err := k.Beat(idle); err != nil {
		k.Drain()
		return nil, err
	}
	return k, nil
}

func (b *Buffer) report(r coalesce.Report) error {
	if !r.User.Valid() || r.Device == 0 {
		return outOfRange(r)
	}
	b.start.Do(func() { go b.run() })
	s := &b.shards[schemas.PartitionOf(r.User, b.cfg.Partitions)]
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	hurry, err := s.queue.Add(b.now(), r)
	s.mu.Unlock()
	if hurry {
		b.hurry(s)
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

// each calls do for every shard, under its lock.
func (b *Buffer) each(do func(s *shard)) {
	for i := range b.shards {
		s := &b.shards[i]
		s.mu.Lock()
		do(s)
		s.mu.Unlock()
	}
}

// hurry makes run look at s soon.
func (b *Buffer) hurry(s *shard) {
	if !s.hurry.Swap(true) {
		b.signal()
	}
}

func (b *Buffer) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *Buffer) now() time.Duration { return time.Since(b.started) }
