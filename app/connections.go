package app

import (
	"container/list"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"
)

// adminConnections bounds the connections to the admin port. It has a bound of its own,
// so that it answers while all client connections are taken.
const adminConnections = 64

// reserved are descriptors that clients leave to the rest of the process, the admin
// port included.
const reserved = 1024

// keepIdle is how long a connection may wait between two requests while all connections are
// taken. After it, a new connection replaces the one that has waited longest.
const keepIdle = 5 * time.Second

// warnEvery is the least time between two warnings of a listener that it refuses connections.
const warnEvery = 10 * time.Second

// maxConnections is how many client connections may be open, so that the process
// has descriptors left for Kafka, Redis, its files and the admin port.
func (h HTTP) maxConnections() int {
	if h.MaxConnections > 0 {
		return h.MaxConnections
	}
	return spare(descriptors())
}

// spare is how many of limit descriptors clients may take.
func spare(limit int) int { return limit - min(reserved, limit/2) }

// connectionMetrics are the metrics of the connections to all ports.
type connectionMetrics struct {
	open, most *prometheus.GaugeVec
	refused    *prometheus.CounterVec
	failures   *prometheus.CounterVec
}

func newConnectionMetrics(registry prometheus.Registerer) *connectionMetrics {
	register := promauto.With(registry)
	gauges := func(name, help string) *prometheus.GaugeVec {
		return register.NewGaugeVec(prometheus.GaugeOpts{Name: "stillhere_http_" + name, Help: help}, []string{"port"})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return register.NewCounterVec(prometheus.CounterOpts{Name: "stillhere_http_" + name, Help: help}, labels)
	}
	return &connectionMetrics{
		open: gauges("connections", "Open connections by port: client, admin."),
		most: gauges("connections_max", "Connections that may be open, by port."),
		refused: counters("connections_refused_total",
			"Connections that the server closed, by port and reason: full (all are taken), "+
				"address (this address has too many open), idle (closed for a new one when all were taken).", "port", "reason"),
		failures: counters("accept_failures_total",
			"Connections that could not be accepted, by port; usually the process has no descriptors left.", "port"),
	}
}

// bounded accepts at most so many connections at a time, and so many of one address if each is
// not 0. It counts a connection from its accept on, so that slow requests count as well.
type bounded struct {
	net.Listener
	port string
	most int          // guarded by mu
	each atomic.Int64 // limit changes it
	// proxy reports addresses to which each does not apply, because many clients share them;
	// nil: it applies to all.
	proxy   func(netip.Addr) bool
	metrics *connectionMetrics
	log     *slog.Logger
	warn    rate.Sometimes

	mu      sync.Mutex // never held while anything blocks
	total   int
	open    map[netip.Prefix]int
	refused int        // since the last warning
	idle    *list.List // of *waiting, those that wait between two requests, the first first
}

// waiting is a connection without a request.
type waiting struct {
	conn  net.Conn
	since time.Time
}

func newBounded(l net.Listener, port string, most, each int, metrics *connectionMetrics, log *slog.Logger) *bounded {
	// increase() does not see the first count of a counter that appears with it.
	metrics.failures.WithLabelValues(port)
	for _, reason := range []string{"full", "address", "idle"} {
		metrics.refused.WithLabelValues(port, reason)
	}
	b := &bounded{Listener: l, port: port, metrics: metrics, log: log,
		warn: rate.Sometimes{Interval: warnEvery}, open: map[netip.Prefix]int{}, idle: list.New()}
	b.limit(most, each)
	return b
}

// limit sets both limits from now on. Open connections stay.
func (l *bounded) limit(most, each int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = most
	l.each.Store(int64(each))
	l.metrics.most.WithLabelValues(l.port).Set(float64(most))
}

// Accept closes connections beyond the limits, and goes on.
func (l *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				l.metrics.failures.WithLabelValues(l.port).Inc()
				l.warn.Do(func() {
					l.log.Warn("a connection cannot be accepted; check the process's descriptors (ulimit -n)",
						"port", l.port, "address", l.Addr().String(), "error", err)
				})
			}
			return nil, err
		}
		from := sourceOf(conn.RemoteAddr())
		if at, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil && l.proxy != nil && l.proxy(at.Addr()) {
			from = netip.Prefix{} // many clients share it
		}
		reason := l.enter(from)
		if reason == "full" && l.reclaim() {
			reason = l.enter(from)
		}
		if reason != "" {
			l.refuse(conn, reason)
			continue
		}
		l.metrics.open.WithLabelValues(l.port).Inc()
		if kernels, ok := conn.(*net.TCPConn); ok {
			return &countedTCP{TCPConn: kernels, connState: l.state(from)}, nil
		}
		return &counted{Conn: conn, connState: l.state(from)}, nil
	}
}

// state is that of a connection that has entered.
func (l *bounded) state(from netip.Prefix) *connState {
	var at *list.Element // nil while there is a request; guarded by mu
	busy := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if at != nil {
			l.idle.Remove(at)
			at = nil
		}
	}
	return &connState{
		leave: sync.OnceFunc(func() { busy(); l.leave(from) }),
		idle: func(conn net.Conn) {
			l.mu.Lock()
			defer l.mu.Unlock()
			at = l.idle.PushBack(&waiting{conn: conn, since: time.Now()})
		},
		busy: busy,
	}
}

// reclaim closes the connection that has waited longest between two requests; false when
// none has for keepIdle.
func (l *bounded) reclaim() bool {
	l.mu.Lock()
	first := l.idle.Front()
	l.mu.Unlock()
	if first == nil {
		return false
	}
	longest := first.Value.(*waiting)
	if time.Since(longest.since) < keepIdle {
		return false
	}
	l.metrics.refused.WithLabelValues(l.port, "idle").Inc()
	_ = longest.conn.Close() // an error changes nothing: the connection is closed
	return true
}

func (l *bounded) refuse(conn net.Conn, reason string) {
	l.metrics.refused.WithLabelValues(l.port, reason).Inc()
	_ = conn.Close() // an error changes nothing: the connection is closed
	l.mu.Lock()
	l.refused++
	l.mu.Unlock()
	l.warn.Do(func() {
		l.mu.Lock()
		refused, most := l.refused, l.most
		l.refused = 0
		l.mu.Unlock()
		l.log.Warn("connections are refused: too many are open", "port", l.port, "reason", reason,
			"refused", refused, "max", most, "max_per_address", l.each.Load())
	})
}

// enter counts a connection, or returns why it is refused.
func (l *bounded) enter(from netip.Prefix) (reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.total >= l.most:
		return "full"
	case from.IsValid() && l.isFull(from):
		return "address"
	}
	l.total++
	if from.IsValid() {
		l.open[from]++
	}
	return ""
}

// isFull reports whether an address has all its connections; the lock is held.
func (l *bounded) isFull(from netip.Prefix) bool {
	each := l.each.Load()
	return each > 0 && int64(l.open[from]) >= each
}

func (l *bounded) leave(from netip.Prefix) {
	l.metrics.open.WithLabelValues(l.port).Dec()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if from.IsValid() {
		l.forget(from)
	}
}

// forget counts one less; the lock is held.
func (l *bounded) forget(from netip.Prefix) {
	if l.open[from]--; l.open[from] == 0 {
		delete(l.open, from)
	}
}

// sourceOf is an address of IPv4, or a network of IPv6: a client with one address of it
// can use all of them.
func sourceOf(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(ip, bits).Masked()
}
