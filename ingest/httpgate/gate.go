package httpgate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/quota"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// Gate serves the HTTP endpoints.
type Gate struct {
	cfg             ingest.Config
	metrics         *ingest.Metrics
	start           time.Time // the origin of all times below
	writer          *writer
	gateways        *gateways
	heartbeatSlots  chan struct{} // one for each request with beats that have arrived
	visibilitySlots chan struct{} // one for each change of a user that has arrived
	incomplete      *quota.Quota[sender]
	copies          Copies            // nil: nobody can erase
	tenants         *tenants.Accounts // nil: tenants have no quotas
	zstd            *zstd.Decoder
	maxDevices      atomic.Int64 // HTTP.MaxDevices as it is now
	policyOf        atomic.Pointer[func(tenant string) schemas.Policy]
}

// New makes a gate.
func New(cfg ingest.Config, log beat.Appender, metrics *ingest.Metrics) (*Gate, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	zstdReader, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2),
		zstd.WithDecoderMaxMemory(uint64(cfg.HTTP.MaxBody)))
	if err != nil {
		return nil, fmt.Errorf("setting up zstd: %w", err)
	}
	g := &Gate{
		cfg: cfg, metrics: metrics, start: time.Now(), zstd: zstdReader,
		heartbeatSlots:  make(chan struct{}, cfg.HTTP.MaxRequests),
		visibilitySlots: make(chan struct{}, cfg.HTTP.MaxVisibility),
		incomplete:      quota.New[sender](cfg.HTTP.MaxArriving),
	}
	g.writer = newWriter(g.now, cfg, log, metrics)
	g.gateways = newGateways(cfg)
	g.Follow(cfg)
	return g, nil
}

// Follow applies ForgetAfter, HTTP.MaxDevices and HTTP.PolicyOf of cfg, as after a change of the detector's
// policy. It may be called from any goroutine.
func (g *Gate) Follow(cfg ingest.Config) {
	g.maxDevices.Store(int64(cfg.HTTP.MaxDevices))
	g.policyOf.Store(&cfg.HTTP.PolicyOf)
	g.gateways.mu.Lock()
	defer g.gateways.mu.Unlock()
	g.gateways.cfg.ForgetAfter = cfg.ForgetAfter
}

// Routes registers the endpoints with mux, one pattern per method, so that they do not clash with
// other services' patterns below /presence/.
func (g *Gate) Routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /presence/heartbeats", g.endpoint("heartbeats", g.postHeartbeats))
	mux.HandleFunc("POST /presence/connections", g.endpoint("connections", g.postConnections))
	// Reads serve GET of the same paths.
	mux.HandleFunc("PUT /presence/{user_id}/visibility", g.endpoint("visibility", g.putVisibility))
	mux.HandleFunc("PUT /presence/{user_id}/audience", g.endpoint("audience", g.putAudience))
	mux.HandleFunc("POST /presence/{user_id}/audience/deny", g.endpoint("deny", g.postDeny))
	mux.HandleFunc("PUT /presence/{user_id}/override", g.endpoint("override", g.putOverride))
	mux.HandleFunc("DELETE /presence/{user_id}/override", g.endpoint("override", g.deleteOverride))
	if g.copies != nil {
		mux.HandleFunc("DELETE /presence/{user_id}", g.endpoint("erasure", g.deleteUser))
	}
}

// Run sends collected beats and the alive frames of named gateways until ctx ends. Requests are
// answered only while it runs: stop the HTTP server first. It returns nil when every frame has
// been answered.
func (g *Gate) Run(ctx context.Context) error {
	defer g.zstd.Close()
	alive := time.NewTicker(aliveCheck)
	defer alive.Stop()
	for {
		select {
		case <-g.writer.wake:
			// Others may come to share the frame.
			select {
			case <-time.After(g.cfg.HTTP.Linger):
			case <-ctx.Done():
			}
			g.writer.flush()
		case <-alive.C:
			g.sendAlive()
		case <-ctx.Done():
			g.writer.stop()
			return nil
		}
	}
}

func overloaded(reason string) error {
	return web.RefuseFor(retryAfter, http.StatusServiceUnavailable, web.Overloaded, "", reason)
}

// retryAfter is when a caller that got 503 should try again.
const retryAfter = time.Second

// enter takes one of slots, or fails if there is none. leave gives it back.
func enter(slots chan struct{}) (leave func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	default:
		return nil, overloaded("too many requests at a time")
	}
}

// endpoint adds the origin check, the answer to an error and the metric to a handler.
func (g *Gate) endpoint(
	route string, handle func(w http.ResponseWriter, r *http.Request) (status int, err error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status, err := http.StatusForbidden, g.cfg.CheckOrigin(r)
		if err != nil {
			err = &web.Refusal{Status: status, Err: err}
		} else {
			status, err = handle(w, r)
		}
		if err != nil {
			status = writeError(w, err)
		}
		g.metrics.Answered(route, strconv.Itoa(status))
	}
}

// writeError answers with err and returns the status.
func writeError(w http.ResponseWriter, err error) (status int) {
	status = http.StatusInternalServerError
	var known *web.Refusal
	switch {
	case errors.As(err, &known):
		status = known.Status
	case ingest.IsForbidden(err):
		status = http.StatusForbidden
	case schemas.IsInvalid(err):
		status = http.StatusBadRequest
	}
	web.Write(w, status, err)
	return status
}

// statusClientClosed is the status in the metric of a request that the client gave up; it is no
// error of the server.
const statusClientClosed = 499

// await waits for Kafka's answer, at most AppendTimeout.
func (g *Gate) await(ctx context.Context, written <-chan error) error {
	timeout := time.NewTimer(g.cfg.AppendTimeout)
	defer timeout.Stop()
	select {
	case err := <-written:
		if err == nil {
			return nil
		}
	case <-timeout.C:
	case <-ctx.Done():
		return web.Refuse(statusClientClosed, "gone", "", "nobody reads the answer")
	}
	return web.RefuseFor(retryAfter, http.StatusServiceUnavailable, web.Unavailable, "",
		"Kafka has not acknowledged it; it is safe to repeat the request")
}

func (g *Gate) now() time.Duration { return time.Since(g.start) }
