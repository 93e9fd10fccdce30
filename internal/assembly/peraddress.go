package assembly

import (
	"net"
	"net/netip"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// perAddress bounds the connections of one address, if that is asked for. It counts
// from the moment a connection is accepted, so that those who trickle their requests
// count as well.
func (h *house) perAddress(l net.Listener) net.Listener {
	if h.config.MaxPerAddress == 0 {
		return l
	}
	refused := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "stillhere", Subsystem: "doors", Name: "connections_refused_total",
		Help: "Connections closed at once because their address has too many open."})
	h.registry.MustRegister(refused)
	return &fewEach{Listener: l, most: h.config.MaxPerAddress, refused: refused, open: map[netip.Prefix]int{}}
}

// fewEach accepts so many connections of an address at a time.
type fewEach struct {
	net.Listener
	most    int
	refused prometheus.Counter

	mu   sync.Mutex // never held while anything blocks
	open map[netip.Prefix]int
}

// Accept closes connections of an address that has enough of them, and goes on.
func (l *fewEach) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := whereFrom(conn.RemoteAddr())
		if !l.enter(from) {
			l.refused.Inc()
			_ = conn.Close() // whatever that says, it is over
			continue
		}
		leave := sync.OnceFunc(func() { l.leave(from) })
		if kernels, ok := conn.(*net.TCPConn); ok {
			return &countedTCP{kernels, leave}, nil
		}
		return &counted{conn, leave}, nil
	}
}

func (l *fewEach) enter(from netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[from] >= l.most {
		return false
	}
	l.open[from]++
	return true
}

func (l *fewEach) leave(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[from]--; l.open[from] == 0 {
		delete(l.open, from)
	}
}

// whereFrom is an address of IPv4, or a network of IPv6: whoever has one address of it
// has all of them.
func whereFrom(a net.Addr) netip.Prefix {
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

// countedTCP is a connection of the kernel's, with everything that it can do.
type countedTCP struct {
	*net.TCPConn
	leave func()
}

func (c *countedTCP) Close() error {
	defer c.leave()
	return c.TCPConn.Close()
}

// counted is any other.
type counted struct {
	net.Conn
	leave func()
}

func (c *counted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
