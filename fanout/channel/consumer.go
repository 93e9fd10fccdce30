package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/stillhere/stillhere/fanout/internal/told"
	"github.com/stillhere/stillhere/schemas"
)

// Item is a record of presence.deliveries.
type Item struct {
	Delivery *schemas.Delivery
	Record   schemas.Record // its bytes are valid while it is applied
}

// Decode reads a record of presence.deliveries.
func Decode(r *schemas.Record) (Item, error) {
	d, err := schemas.DecodeDelivery(r.Value)
	return Item{Delivery: d, Record: *r}, err
}

// SetAside keeps a record that could not be delivered for people to look at. The
// record counts as handled when it returns nil.
type SetAside func(ctx context.Context, r *schemas.Record, reason error) error

// Consumer hands deliveries to a channel. It is a handler of presence.deliveries:
// batches of one partition come in order, those of several at the same time.
type Consumer struct {
	config   Config
	channel  Channel
	hides    Hides
	setAside SetAside
	metrics  *Metrics
	log      *slog.Logger
	seen     *told.Memory
	jitter   func(time.Duration) time.Duration

	mu   sync.Mutex
	free time.Time // when the next delivery may begin
}

// Metrics are the figures of a channel.
type Metrics struct {
	Delivered prometheus.Counter // recipients
	Dropped   prometheus.Counter // recipients who knew already
	Withheld  *prometheus.CounterVec
	Tries     *prometheus.CounterVec
	Letters   prometheus.Counter
}

// NewMetrics registers the metrics with r; nil registers them nowhere.
func NewMetrics(r prometheus.Registerer) *Metrics {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: "stillhere_channel_" + name, Help: help}
	}
	m := &Metrics{
		Delivered: prometheus.NewCounter(opts("recipients_total", "Recipients told.")),
		Dropped:   prometheus.NewCounter(opts("recipients_dropped_total", "Recipients left out because they were told this or something newer.")),
		Withheld: prometheus.NewCounterVec(opts("recipients_withheld_total",
			"Recipients not told, by reason: hidden (the user hides by now), old (the delivery is older than max-age)."), []string{"reason"}),
		Tries:   prometheus.NewCounterVec(opts("tries_total", "Deliveries tried, by outcome: done, failed, refused."), []string{"outcome"}),
		Letters: prometheus.NewCounter(opts("dead_letters_total", "Deliveries given up.")),
	}
	r.MustRegister(m.Delivered, m.Dropped, m.Withheld, m.Tries, m.Letters)
	return m
}

// NewConsumer makes one. Of a user who hides by now nothing is delivered, however late
// a delivery is read or tried again; hides nil: nobody does.
func NewConsumer(config Config, channel Channel, hides Hides, setAside SetAside, metrics *Metrics, log *slog.Logger) (*Consumer, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("channel: %w", err)
	}
	if hides == nil {
		hides = func(schemas.UserID, schemas.Version) bool { return false }
	}
	return &Consumer{config: config, channel: channel, hides: hides, setAside: setAside, metrics: metrics, log: log, seen: told.New(config.Remember),
		jitter: func(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }}, nil
}

// Apply delivers a batch. After an error part of it has been delivered; the same
// batch again skips that.
func (c *Consumer) Apply(ctx context.Context, batch schemas.Batch[Item]) error {
	lanes := make([][]*Item, c.config.Concurrency)
	for i := range batch.Items {
		item := &batch.Items[i]
		lane := int(uint64(item.Delivery.Transition.User) % uint64(len(lanes)))
		lanes[lane] = append(lanes[lane], item)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, lane := range lanes {
		if len(lane) == 0 {
			continue
		}
		group.Go(func() error {
			for _, item := range lane {
				if err := c.deliver(ctx, item); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func (c *Consumer) deliver(ctx context.Context, item *Item) error {
	t := item.Delivery.Transition
	fresh := c.seen.Fresh(t.User, t.Version, item.Delivery.Recipients)
	c.metrics.Dropped.Add(float64(len(item.Delivery.Recipients) - len(fresh)))
	if len(fresh) == 0 {
		return nil
	}
	notice := Notice{ID: fmt.Sprintf("%s-%d-%d", t.EventID(), item.Record.Partition, item.Record.Offset), Transition: t, Recipients: fresh}
	err := c.old(item)
	if err == nil {
		err = c.persist(ctx, notice)
	}
	switch {
	case err == nil:
		c.metrics.Delivered.Add(float64(len(fresh)))
	case errors.Is(err, errOld), errors.Is(err, errHidden):
		c.metrics.Withheld.WithLabelValues(err.Error()).Add(float64(len(fresh)))
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		c.log.Error("a delivery is given up", "id", notice.ID, "user", t.User, "recipients", len(fresh), "error", err)
		if err := c.setAside(ctx, &item.Record, err); err != nil {
			return fmt.Errorf("setting aside delivery %s: %w", notice.ID, err)
		}
		c.metrics.Letters.Inc()
	}
	c.seen.Note(t.User, t.Version, fresh)
	return nil
}

// Why a delivery is withheld.
var (
	errOld    = errors.New("old")
	errHidden = errors.New("hidden")
)

func (c *Consumer) old(item *Item) error {
	if c.config.MaxAge > 0 && item.Record.Time.Time().Before(time.Now().Add(-c.config.MaxAge)) {
		return errOld
	}
	return nil
}

// persist tries until it works, is pointless, or was tried often enough.
func (c *Consumer) persist(ctx context.Context, n Notice) error {
	for tries := 1; ; tries++ {
		if err := c.pace(ctx); err != nil {
			return err
		}
		if c.hides(n.Transition.User, n.Transition.Version) {
			return errHidden
		}
		try, cancel := context.WithTimeout(ctx, c.config.Timeout)
		err := c.channel.Deliver(try, n)
		cancel()
		var final *permanent
		switch {
		case err == nil:
			c.metrics.Tries.WithLabelValues("done").Inc()
			return nil
		case errors.As(err, &final):
			c.metrics.Tries.WithLabelValues("refused").Inc()
			return err
		}
		c.metrics.Tries.WithLabelValues("failed").Inc()
		if tries == c.config.Attempts {
			return fmt.Errorf("tried %d times: %w", tries, err)
		}
		if err := sleep(ctx, c.waitAfter(tries, err)); err != nil {
			return err
		}
	}
}

func (c *Consumer) waitAfter(tries int, err error) time.Duration {
	wait := c.config.MaxWait
	if shift := tries - 1; shift < 30 {
		wait = min(wait, c.config.FirstWait<<shift)
	}
	wait = c.jitter(wait)
	var hint *after
	if errors.As(err, &hint) {
		wait = max(wait, min(hint.wait, c.config.MaxWait))
	}
	return wait
}

// pace waits for the next delivery's time.
func (c *Consumer) pace(ctx context.Context) error {
	if c.config.Rate == 0 {
		return ctx.Err()
	}
	c.mu.Lock()
	now := time.Now()
	if c.free.Before(now) {
		c.free = now
	}
	wait := c.free.Sub(now)
	c.free = c.free.Add(time.Duration(float64(time.Second) / c.config.Rate))
	c.mu.Unlock()
	return sleep(ctx, wait)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
