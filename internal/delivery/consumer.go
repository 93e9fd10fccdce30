package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/schemas"
)

// Item is a record of presence.deliveries, or of presence.transitions.
type Item struct {
	// Delivery of a transition has no recipients; nil: the channel may not know of the transition.
	Delivery *schemas.Delivery
	Record   schemas.Record // its bytes are valid while it is applied
}

// everybody stands in the dedup cache for whoever reads a channel of all transitions.
var everybody = []schemas.UserID{0}

// Take delivers n as Channel.Deliver does.
type Take func(ctx context.Context, n Notice) error

// DeadLetter writes a record that could not be delivered to the dead-letter topic. The record counts
// as handled when it returns nil.
type DeadLetter func(ctx context.Context, r *schemas.Record, reason error) error

// Consumer hands deliveries to a channel. It is a handler of presence.deliveries that defers (see
// stream.Deferring). Batches of one partition come in order, those of several at the same time. The
// queues are in partition.go.
type Consumer struct {
	config      Config
	take        Take
	hiddenAfter HiddenAfter
	erasedAfter ErasedAfter // nil: nobody is erased
	refused     Refused     // nil: nobody is refused
	tenants     Tenants
	deadLetter  DeadLetter
	metrics     *Metrics
	log         *slog.Logger
	seen        *Delivered
	jitter      func(time.Duration) time.Duration

	limit      *rate.Limiter // of first and repeated tries
	mu         sync.Mutex    // protects partitions
	partitions map[int32]*partition
}

// Metrics are the metrics of a channel.
type Metrics struct {
	Delivered prometheus.Counter     // recipients
	Dropped   prometheus.Counter     // recipients who had this version or a newer one
	Withheld  *prometheus.CounterVec // recipients, by reason
	Tries     *prometheus.CounterVec // by outcome
	Letters   prometheus.Counter
	Others    prometheus.Counter // records of tenants that are not served
	InHand    prometheus.Gauge
}

// NewMetrics registers the metrics with r; nil registers them nowhere.
func NewMetrics(r prometheus.Registerer) *Metrics {
	register := promauto.With(r)
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: "stillhere_channel_" + name, Help: help}
	}
	return &Metrics{
		Delivered: register.NewCounter(opts("recipients_total", "Recipients to whom a delivery was made.")),
		Dropped:   register.NewCounter(opts("recipients_dropped_total", "Recipients skipped because this version or a newer one was delivered to them before.")),
		Withheld: register.NewCounterVec(opts("recipients_withheld_total", "Recipients skipped, by reason: hidden (the user is hidden by now, or the change is not for others), "+
			"erased (the user was erased since), "+
			"not_allowed (may not see the user by now), old (the delivery is older than max-age)."), []string{"reason"}),
		Tries: register.NewCounterVec(opts("tries_total", "Tries, by outcome: done, failed, refused (by the receiver), "+
			"undecided (it cannot be decided who may see the user)."), []string{"outcome"}),
		Letters: register.NewCounter(opts("dead_letters_total", "Deliveries written to the dead-letter topic.")),
		Others:  register.NewCounter(opts("other_tenants_total", "Deliveries or transitions skipped because the channel does not serve their tenant.")),
		InHand: register.NewGauge(prometheus.GaugeOpts{Name: "stillhere_channel_in_hand",
			Help: "Deliveries in progress: being tried, or waiting for an earlier one of their user or for the next try."}),
	}
}

// NewConsumer makes a Consumer. hides says before each try who is hidden by now; nil: nobody.
func NewConsumer(config Config, take Take, hides HiddenAfter, deadLetter DeadLetter, metrics *Metrics, log *slog.Logger,
) (*Consumer, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("channel: %w", err)
	}
	if hides == nil {
		hides = func(schemas.UserID, schemas.Version) bool { return false }
	}
	limit := rate.Inf
	if config.Rate > 0 {
		limit = rate.Limit(config.Rate)
	}
	return &Consumer{config: config, take: take, limit: rate.NewLimiter(limit, 1), hiddenAfter: hides, deadLetter: deadLetter,
		metrics: metrics, log: log, seen: NewDelivered(config.Remember), partitions: map[int32]*partition{},
		jitter: func(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }}, nil
}

// Authorize makes refused decide before each try who may not receive it. Call it before Apply.
func (c *Consumer) Authorize(refused Refused) { c.refused = refused }

// WithholdErased makes erased say before each try who was erased. Call it before Apply.
func (c *Consumer) WithholdErased(erased ErasedAfter) { c.erasedAfter = erased }

// Serve makes the channel skip the users of other tenants. Call it before Apply.
func (c *Consumer) Serve(tenants Tenants) { c.tenants = tenants }

// deliver delivers or withholds one delivery, or writes it to the dead-letter topic. errReleased says
// that it is left to the partition's next owner.
func (p *partition) deliver(q *queue, item *Item) error {
	c, t := p.c, item.Delivery.Transition
	recipients := item.Delivery.Recipients
	if recipients == nil {
		recipients = everybody
	}
	fresh := c.seen.Fresh(t.User, t.Version, recipients)
	c.metrics.Dropped.Add(float64(len(recipients) - len(fresh)))
	if len(fresh) == 0 {
		return nil
	}
	notice := Notice{ID: t.EventID().String(), Delivery: item.Delivery}
	if item.Delivery.Recipients != nil {
		notice.ID = fmt.Sprintf("%s-%d-%d", t.EventID(), item.Record.Partition, item.Record.Offset)
		notice.Delivery = to(fresh, item.Delivery)
	}
	err := c.old(item)
	if err == nil {
		err = p.retry(q, &notice)
	}
	switch {
	case err == nil:
		c.metrics.Delivered.Add(recipientsOf(notice))
	case errors.Is(err, errOld), errors.Is(err, errHidden), errors.Is(err, errErased):
		c.metrics.Withheld.WithLabelValues(err.Error()).Add(recipientsOf(notice))
	case errors.Is(err, errReleased):
		return err
	default:
		c.log.Error("delivery failed too often or for good; writing it to the dead-letter topic",
			"id", notice.ID, "user_id", t.User, "recipients", len(notice.Recipients), "error", err)
		if err := p.writeDeadLetter(item, notice.ID, err); err != nil {
			return err
		}
		c.metrics.Letters.Inc()
	}
	c.seen.Add(t.User, t.Version, fresh)
	return nil
}

// recipientsOf counts the recipients; a transition for everybody counts as one.
func recipientsOf(n Notice) float64 {
	if n.Recipients == nil {
		return 1
	}
	return float64(len(n.Recipients))
}

// writeDeadLetter writes a delivery to the dead-letter topic. It tries until it succeeds.
func (p *partition) writeDeadLetter(item *Item, id string, reason error) error {
	c := p.c
	for tries := 1; ; tries++ {
		err := c.deadLetter(p.ctx, &item.Record, reason)
		if err == nil {
			return nil
		}
		c.log.Warn("writing a delivery to the dead-letter topic failed; trying again", "id", id, "tries", tries, "error", err)
		if err := p.pause(c.waitAfter(tries, err)); err != nil {
			return err
		}
	}
}

// Why a delivery is withheld.
var (
	errOld    = errors.New("old")
	errHidden = errors.New("hidden")
	errErased = errors.New("erased")
)

// notAllowed is the label for recipients who may not see the user.
const notAllowed = "not_allowed"

// undecided says that it cannot be decided now who may receive a delivery. Refused is asked again for
// as long as that takes: the receiver is not at fault.
type undecided struct{ error }

func (u *undecided) Unwrap() error { return u.error }

func (c *Consumer) old(item *Item) error {
	if c.config.MaxAge > 0 && item.Record.Time.Time().Before(time.Now().Add(-c.config.MaxAge)) {
		return errOld
	}
	return nil
}

// retry tries until the delivery succeeds, fails for good or has used its attempts. It removes
// refused recipients from n.
func (p *partition) retry(q *queue, n *Notice) error {
	c := p.c
	tries, asked := 0, 0
	for {
		err := p.try(q, n)
		var open *undecided
		var wait time.Duration
		switch {
		case err == nil:
			q.failing = false
			c.metrics.Tries.WithLabelValues("done").Inc()
			return nil
		case errors.Is(err, errReleased), errors.Is(err, errHidden), errors.Is(err, errErased):
			return err
		case IsPermanent(err):
			c.metrics.Tries.WithLabelValues("refused").Inc()
			return err
		case errors.As(err, &open):
			if asked++; asked == 1 {
				c.log.Warn("the recipients of a delivery cannot be decided; asking again", "id", n.ID, "error", err)
			}
			c.metrics.Tries.WithLabelValues("undecided").Inc()
			wait = c.waitAfter(asked, err)
		default:
			tries++
			c.metrics.Tries.WithLabelValues("failed").Inc()
			if tries == c.config.Attempts {
				return fmt.Errorf("tried %d times: %w", tries, err)
			}
			wait = c.waitAfter(tries, err)
		}
		q.failing = true
		if err := p.pause(wait); err != nil {
			return err
		}
	}
}

// try tries once, when there is a slot and the rate allows it. Without recipients who may receive it,
// it does nothing.
func (p *partition) try(q *queue, n *Notice) error {
	c := p.c
	leave, err := p.enter(q.failing)
	if err != nil {
		return err
	}
	defer leave()
	if c.limit.Wait(p.ctx) != nil {
		return errReleased
	}
	if c.erasedAfter != nil && c.erasedAfter(n.Transition.User, n.Transition.Version) {
		return errErased
	}
	if c.hidden(n) {
		return errHidden
	}
	ctx, cancel := context.WithTimeout(p.ctx, c.config.Timeout)
	defer cancel()
	err = c.withhold(ctx, n)
	if err == nil && recipientsOf(*n) > 0 {
		err = c.take(ctx, *n)
	}
	if err != nil && p.ctx.Err() != nil {
		return errReleased
	}
	return err
}

// hidden reports whether the user is hidden by now and n says more than that.
func (c *Consumer) hidden(n *Notice) bool {
	t := n.Transition
	saysSo := n.Recipients == nil && t.Visibility == schemas.Nobody || c.config.HiddenOffline && t.To == schemas.Offline
	return !saysSo && c.hiddenAfter(t.User, t.Version)
}

// withhold removes the recipients of n who may not see the user.
func (c *Consumer) withhold(ctx context.Context, n *Notice) error {
	if c.refused == nil || n.Recipients == nil {
		return nil
	}
	refused, err := c.refused(ctx, n.Transition.User, n.Recipients)
	if err != nil {
		return &undecided{err}
	}
	if len(refused) == 0 {
		return nil
	}
	c.metrics.Withheld.WithLabelValues(notAllowed).Add(float64(len(refused)))
	n.Delivery = to(slices.DeleteFunc(slices.Clone(n.Recipients), func(r schemas.UserID) bool {
		refuse := len(refused) > 0 && refused[0] == r
		if refuse {
			refused = refused[1:]
		}
		return refuse
	}), n.Delivery)
	return nil
}

func (c *Consumer) waitAfter(tries int, err error) time.Duration {
	wait := c.config.MaxWait
	if shift := tries - 1; shift < 30 {
		wait = min(wait, c.config.FirstWait<<shift)
	}
	wait = c.jitter(wait)
	if asked, ok := WaitOf(err); ok {
		wait = max(wait, min(asked, c.config.MaxWait))
	}
	return wait
}
