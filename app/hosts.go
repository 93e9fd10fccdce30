package app

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// onLoopback reports whether an address to listen on can be reached from this machine
// alone.
func onLoopback(address string) bool {
	host, ok := splitHost(address)
	return ok && isLoopback(host)
}

// splitHost returns the host of host:port.
func splitHost(address string) (host string, ok bool) {
	host, _, err := net.SplitHostPort(address)
	return host, err == nil
}

// isLoopback reports whether a host without its port is this machine under a name or
// address that no other can have (RFC 6761, section 6.3).
func isLoopback(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// allowHosts answers 421 to requests for any other host than the address that is listened
// on, the loopback and those that are allowed. Where no token identifies the caller, a web
// page could otherwise have its own name resolve to this address and be of the same
// origin (DNS rebinding). Where all addresses of the machine are listened on, any address
// will do, for an address cannot be rebound.
func allowHosts(listen string, allowed []string, next http.Handler) http.Handler {
	own, _, err := net.SplitHostPort(listen)
	if err != nil {
		own = listen
	}
	address, err := netip.ParseAddr(own)
	every := own == "" || err == nil && address.IsUnspecified()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostOf(r.Host)
		ip, err := netip.ParseAddr(host)
		known := r.Host == "" && !r.ProtoAtLeast(1, 1) || // no browser sends this
			isLoopback(host) || strings.EqualFold(host, own) || every && err == nil && ip.IsValid() ||
			slices.ContainsFunc(allowed, func(name string) bool { return strings.EqualFold(name, host) })
		if !known {
			web.Write(w, http.StatusMisdirectedRequest, &schemas.FieldError{Code: "misdirected_request", Field: "Host",
				Reason: strconv.Quote(r.Host) + " is not a host of this server; use the address that it listens on, " +
					"or add the host to --allowed-hosts"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOf is the host of a Host header, without port and brackets.
func hostOf(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(header, "["), "]")
}
