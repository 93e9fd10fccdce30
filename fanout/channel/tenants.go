package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/internal/redact"
	"github.com/stillhere/stillhere/schemas"
)

// Tenants posts the notices of each tenant to the tenant's own URL, with a circuit breaker and a rate for
// each. It is the Channel and the Endpoints of a delivery.Job. Any goroutine may use it.
type Tenants struct {
	config TenantsConfig
	client *http.Client
	log    *slog.Logger
	byName atomic.Pointer[map[string]*endpoint]
}

// TenantsConfig is what all tenants have in common.
type TenantsConfig struct {
	Source string // the CloudEvents source
	// LinkLocal is WebhookConfig.LinkLocal.
	LinkLocal bool
	// Client nil means one that follows no redirects. LinkLocal has no effect on another client.
	Client   *http.Client
	Registry prometheus.Registerer // nil: registered nowhere
}

// TenantWebhook is the receiver of one tenant.
type TenantWebhook struct {
	Tenant string // empty: the default tenant
	URL    string
	Secret string // empty: requests are not signed
	// Events are the states whose begin is posted: online, away, offline; none: all. That a user hides is
	// always posted.
	Events []string
	Rate   float64 // of tries a second in this process; 0: no limit
}

// endpoint is the receiver of a tenant in use.
type endpoint struct {
	TenantWebhook
	hook    *Webhook
	breaker breaker
	limit   *rate.Limiter // nil: no limit
	states  []schemas.State
}

// allIdleConns is how many idle connections stay open to all receivers together, and idleForOne to one.
const allIdleConns, idleForOne = 2_000, 16

// NewTenants makes a channel without tenants; Use adds them.
func NewTenants(config TenantsConfig, log *slog.Logger) *Tenants {
	register := promauto.With(config.Registry)
	t := &Tenants{config: config, client: config.Client, log: log}
	if t.client == nil {
		t.client = newClient(dialer(config.LinkLocal), idleForOne, allIdleConns)
	}
	t.byName.Store(&map[string]*endpoint{})
	register.NewGaugeFunc(prometheus.GaugeOpts{Name: "stillhere_channel_tenants", Help: "Tenants that have a receiver of their own."},
		func() float64 { return float64(len(*t.byName.Load())) })
	register.NewGaugeFunc(prometheus.GaugeOpts{Name: "stillhere_channel_circuits_open",
		Help: "Receivers of tenants that failed several times in a row; after each pause one try shows whether they are back."}, t.open)
	return t
}

// Use puts these receivers into force in place of those before. A receiver that has not changed keeps its
// circuit and rate. An error names all faults, and then nothing has changed. One goroutine at a time calls
// it.
func (t *Tenants) Use(all []TenantWebhook) error {
	before, next := *t.byName.Load(), make(map[string]*endpoint, len(all))
	var faults []error
	unsigned := 0
	for i, one := range all {
		if next[one.Tenant] != nil {
			faults = append(faults, fmt.Errorf("tenants[%d].tenant: %q is there twice", i, one.Tenant))
			continue
		}
		if one.Secret == "" {
			unsigned++
		}
		if old := before[one.Tenant]; old != nil && old.same(one) {
			next[one.Tenant] = old
			continue
		}
		made, err := t.endpoint(one)
		if err != nil {
			faults = append(faults, fmt.Errorf("tenants[%d] (%q): %w", i, one.Tenant, err))
			continue
		}
		next[one.Tenant] = made
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	t.byName.Store(&next)
	if unsigned > 0 {
		t.log.Warn("webhook requests of tenants are not signed; their receivers cannot recognize them; set secrets", "tenants", unsigned)
	}
	return nil
}

// same reports whether a receiver is configured like this already.
func (e *endpoint) same(as TenantWebhook) bool {
	return e.URL == as.URL && e.Secret == as.Secret && e.Rate == as.Rate && slices.Equal(e.Events, as.Events)
}

// endpoint prepares a receiver.
func (t *Tenants) endpoint(of TenantWebhook) (*endpoint, error) {
	faults := []error{schemas.CheckTenant("tenant", of.Tenant)}
	hook, err := NewWebhook(WebhookConfig{URL: of.URL, Source: t.config.Source, Secret: []byte(of.Secret), LinkLocal: t.config.LinkLocal,
		Client: t.client}, slog.New(slog.DiscardHandler))
	e := &endpoint{TenantWebhook: of, hook: hook}
	faults = append(faults, err)
	for _, event := range of.Events {
		state, err := schemas.ParseState("events", event)
		faults = append(faults, err)
		e.states = append(e.states, state)
	}
	switch {
	case of.Rate < 0:
		faults = append(faults, fmt.Errorf("rate: must not be negative, is %g", of.Rate))
	case of.Rate > 0:
		e.limit = rate.NewLimiter(rate.Limit(of.Rate), 1)
	}
	return e, errors.Join(faults...)
}

// Wants is of delivery.Endpoints.
func (t *Tenants) Wants(of *schemas.Transition) bool {
	e := (*t.byName.Load())[of.Name.Tenant]
	return e != nil && (len(e.states) == 0 || of.Visibility == schemas.Nobody || slices.Contains(e.states, of.To))
}

// Limit is of delivery.Endpoints.
func (t *Tenants) Limit(tenant string) *rate.Limiter {
	if e := (*t.byName.Load())[tenant]; e != nil {
		return e.limit
	}
	return nil
}

// errNoReceiver says that the receiver was removed between two looks. The next try finds that, too.
var errNoReceiver = errors.New("the tenant has no receiver any more")

// Deliver posts n to the receiver of the tenant of its transition.
func (t *Tenants) Deliver(ctx context.Context, n schemas.Notice) error {
	e := (*t.byName.Load())[n.Transition.Name.Tenant]
	if e == nil {
		return errNoReceiver
	}
	if wait, ok := e.breaker.enter(time.Now()); !ok {
		return delivery.After(wait, fmt.Errorf("posting to %s: the circuit is open, because the receiver failed several times in a row", e.hook.shown))
	}
	err := e.hook.Deliver(ctx, n)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) { // this process gave up, not the receiver
		e.breaker.abandon()
		return err
	}
	open, changed := e.breaker.leave(time.Now(), err == nil || delivery.IsPermanent(err))
	if changed {
		t.circuit(e, open, err)
	}
	return err
}

// open counts the circuits that are open.
func (t *Tenants) open() (n float64) {
	for _, e := range *t.byName.Load() {
		if e.breaker.isOpen() {
			n++
		}
	}
	return n
}

// circuit reports that a circuit opened or closed.
func (t *Tenants) circuit(e *endpoint, open bool, err error) {
	if open {
		t.log.Warn("the receiver of a tenant fails: its circuit is open, and deliveries to it wait, then go to the dead-letter topic",
			"tenant", e.Tenant, "url", redact.URL(e.URL), "error", err)
		return
	}
	t.log.Info("the receiver of a tenant answers again: its circuit is closed", "tenant", e.Tenant, "url", redact.URL(e.URL))
}
