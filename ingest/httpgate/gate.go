package httpgate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/problem"
	"github.com/stillhere/stillhere/schemas"
)

// Gate serves the HTTP doors.
type Gate struct {
	cfg      ingest.Config
	log      beat.Log
	metrics  *ingest.Metrics
	start    time.Time // the origin of all times below
	writer   *writer
	gateways *gateways
	slots    chan struct{} // one for each request with beats that have arrived
	hiding   chan struct{} // one for each change of visibility that has arrived
	arriving arriving
	zstd     *zstd.Decoder
	most     atomic.Int64 // HTTP.MaxDevices as it is now
}

// New makes a gate.
func New(cfg ingest.Config, log beat.Log, metrics *ingest.Metrics) (*Gate, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	unzstd, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(uint64(cfg.HTTP.MaxBody)))
	if err != nil {
		return nil, fmt.Errorf("setting up zstd: %w", err)
	}
	g := &Gate{
		cfg: cfg, log: log, metrics: metrics, start: time.Now(), zstd: unzstd,
		slots: make(chan struct{}, cfg.HTTP.MaxRequests), hiding: make(chan struct{}, cfg.HTTP.MaxVisibility),
		arriving: arriving{of: map[sender]int{}},
	}
	g.writer = newWriter(g.now, cfg, log, metrics)
	g.gateways = newGateways(cfg)
	g.Follow(cfg)
	return g, nil
}

// Follow takes over ForgetAfter and HTTP.MaxDevices of cfg, as when the detector's policy
// was changed. It may be called from any goroutine.
func (g *Gate) Follow(cfg ingest.Config) {
	g.most.Store(int64(cfg.HTTP.MaxDevices))
	g.gateways.mu.Lock()
	defer g.gateways.mu.Unlock()
	g.gateways.cfg.ForgetAfter = cfg.ForgetAfter
}

// Routes registers the doors with mux, one pattern for each method, so that they
// go together with other rooms' patterns below /presence/.
func (g *Gate) Routes(mux *http.ServeMux) {
	problem.OnlyMethod(mux, http.MethodPost, "/presence/heartbeats", g.door("heartbeats", g.postHeartbeats))
	problem.OnlyMethod(mux, http.MethodPut, "/presence/{user_id}/visibility", g.door("visibility", g.putVisibility))
}

// Run sends what has been collected and the alive frames of named gateways, until
// ctx ends. Requests are answered only while it runs: stop the server first. It
// returns nil when every frame has been answered.
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

// refusal is an error that knows its status.
type refusal struct {
	status int
	err    error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// busy is a refusal after which the caller may come again.
type busy struct {
	refusal
	after time.Duration
}

func (b *busy) Unwrap() error { return &b.refusal }

func refuse(status int, code, field, reason string) error {
	return &refusal{status, &schemas.FieldError{Code: code, Field: field, Reason: reason}}
}

// door wraps a handler with what all have in common: the origin check, the answer to
// an error, the count.
func (g *Gate) door(route string, handle func(w http.ResponseWriter, r *http.Request) (status int, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status, err := g.admit(w, r, handle)
		if err != nil {
			status = g.explain(w, err)
		}
		g.metrics.Answered(route, strconv.Itoa(status))
	}
}

func (g *Gate) admit(w http.ResponseWriter, r *http.Request, handle func(http.ResponseWriter, *http.Request) (int, error)) (int, error) {
	if !g.cfg.AllowsOrigin(r) {
		return 0, refuse(http.StatusForbidden, "forbidden_origin", "", "the origin "+strconv.Quote(r.Header.Get("Origin"))+" is not allowed")
	}
	return handle(w, r)
}

func overloaded(reason string) error {
	return refuse(http.StatusServiceUnavailable, problem.Overloaded, "", reason)
}

// retryAfter is when a caller that was told 503 should come again.
const retryAfter = time.Second

// explain answers with err and returns the status.
func (g *Gate) explain(w http.ResponseWriter, err error) (status int) {
	var known *refusal
	if again := new(busy); errors.As(err, &again) {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(again.after.Seconds())))))
	}
	switch ok := errors.As(err, &known); {
	case ok && known.status == http.StatusServiceUnavailable:
		problem.WriteBusy(w, retryAfter, err)
		return known.status
	case ok:
		problem.Write(w, known.status, err)
		return known.status
	case schemas.IsInvalid(err):
		problem.Write(w, http.StatusBadRequest, err)
		return http.StatusBadRequest
	}
	problem.Write(w, http.StatusInternalServerError, err)
	return http.StatusInternalServerError
}

// statusGone is the status in the metric of a request that the client has given up: no
// fault of ours, for which somebody would be woken.
const statusGone = 499

// await waits until written is told Kafka's answer, for as long as Kafka has
// time.
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
		return refuse(statusGone, "gone", "", "nobody reads the answer")
	}
	return refuse(http.StatusServiceUnavailable, problem.Unavailable, "", "Kafka has not acknowledged it; it is safe to repeat the request")
}

func (g *Gate) now() time.Duration { return time.Since(g.start) }
