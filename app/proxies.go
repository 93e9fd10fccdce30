package app

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

const forwarded = "X-Forwarded-For"

// proxies are the addresses whose X-Forwarded-For is trusted.
type proxies []netip.Prefix

// parseProxies reads addresses and networks.
func parseProxies(texts []string) (all proxies, err error) {
	var wrong faults.List
	for i, text := range texts {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			var ip netip.Addr
			if ip, err = netip.ParseAddr(text); err == nil {
				network = netip.PrefixFrom(ip, ip.BitLen())
			}
		}
		if err != nil {
			wrong.If(true, "trusted_proxies[%d]: %q must be an address or a network, such as 10.0.0.0/8", i, text)
			continue
		}
		all = append(all, network)
	}
	return all, wrong.Err()
}

func (p proxies) has(ip netip.Addr) bool {
	return slices.ContainsFunc(p, func(n netip.Prefix) bool { return n.Contains(ip.Unmap()) })
}

// client returns the address of the client, and whether a trusted proxy has reported it: the last
// address of X-Forwarded-For that is not a trusted proxy. Proxies append to the header, and a
// client may have written what comes before.
func (p proxies) client(r *http.Request) (ip netip.Addr, behind bool) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !p.has(from.Addr()) {
		return from.Addr(), false
	}
	ip = from.Addr().Unmap()
	said := strings.Split(strings.Join(r.Header.Values(forwarded), ","), ",")
	for _, text := range slices.Backward(said) {
		next, err := addressOf(strings.TrimSpace(text))
		if err != nil {
			break
		}
		if ip, behind = next, true; !p.has(ip) {
			break
		}
	}
	return ip, behind
}

// addressOf reads an address that may have a port.
func addressOf(text string) (netip.Addr, error) {
	if both, err := netip.ParseAddrPort(text); err == nil {
		return both.Addr().Unmap(), nil
	}
	ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	return ip.Unmap(), err
}

// trustProxies gives requests the address of the client. It bounds the requests, sockets and
// streams that one address behind a proxy may have at a time, as bounded does for connections
// without a proxy. places is the bound; nil: none.
func trustProxies(trusted proxies, places *bounded, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ip, behind := trusted.client(r)
		if !behind {
			r.Header.Del(forwarded) // the client may have written it
			next.ServeHTTP(w, r)
			return
		}
		with := *r
		with.RemoteAddr = net.JoinHostPort(ip.String(), "0")
		if conn := connOf(r); conn != nil && places != nil && places.each.Load() > 0 {
			from := sourceOf(&net.TCPAddr{IP: ip.AsSlice()})
			leave, ok := places.enterBehind(from)
			if !ok {
				places.metrics.refused.WithLabelValues(places.port, "address").Inc()
				web.WriteBusy(w, time.Second,
					&schemas.FieldError{Code: web.Overloaded, Reason: "too many connections of " + from.String()})
				return
			}
			conn.settle(leave)
			defer func() {
				if !conn.taken.Load() { // otherwise the connection's end settles it
					conn.settle(nil)
				}
			}()
		}
		next.ServeHTTP(w, &with)
	})
}

// enterBehind counts a client behind a proxy, whose connections are not counted
// by address.
func (l *bounded) enterBehind(from netip.Prefix) (leave func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isFull(from) {
		return nil, false
	}
	l.open[from]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.forget(from)
	}, true
}
