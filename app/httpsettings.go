package app

import (
	"errors"
	"net/url"
	"path"
	"strings"

	"github.com/stillhere/stillhere/internal/faults"
)

// HTTP says on which addresses a process listens, to whom, and how many connections it takes.
// The tags describe the flags of the command line that set the fields.
type HTTP struct {
	Listen string `help:"Listen address for clients, host:port." default:"127.0.0.1:8080"`
	AdminServer
	AllowUnauthenticated bool `help:"Listen on non-loopback addresses without authentication; of a detector, take heartbeats without --frame-keys from brokers on non-loopback addresses."`

	AllowedOrigins   []string `help:"Web origins whose pages may use the API besides its own, such as https://chat.example.com or https://*.example.com." placeholder:"https://*.example.com,..."`
	MaxStreams       int      `help:"Maximum connections of viewers; further ones get 503." default:"100000"`
	MaxSubscriptions int      `help:"Maximum users that one socket or stream may watch, up to 100000, such as a contact list. The header of a request may have 32 kB, or 27 bytes for each of them if that is more, so that an EventSource can name them all and resume; proxies may allow less, and a WebSocket names them in messages." default:"500"`
	MaxConnections   int      `help:"Maximum open connections; the server closes further ones at once. 0: as many as the descriptor limit (ulimit -n) allows." default:"0"`
	MaxPerAddress    int      `name:"max-connections-per-address" help:"Maximum open connections of one address, or one IPv6 /64 network; the server closes further ones at once. 0: no limit, which is needed behind a proxy that is not in --trusted-proxies, since all clients then share its address." default:"0"`
	MaxPerUser       int      `name:"max-connections-per-user" help:"Maximum open sockets and streams of one user in this process; further ones get 429. 0: no limit." default:"20"`
	TrustedProxies   []string `help:"Addresses or networks of proxies whose X-Forwarded-For is trusted; --max-connections-per-address then limits the clients behind them." placeholder:"10.0.0.0/8,..."`
}

// maxSubscriptions bounds HTTP.MaxSubscriptions: a connection may ask for all of them in one message.
const maxSubscriptions = 100_000

// maxHeader is how many bytes the header of a request may have. An EventSource that reconnects names
// all users in the URL, and its last event has a cursor with about 6 characters for each.
func (h HTTP) maxHeader() int {
	const perUser, rest = len("9223372036854775807,") + 7, 4 << 10
	return max(minHeader, rest+perUser*h.MaxSubscriptions)
}

const minHeader = 32 << 10

// AdminServer says where operators find health and metrics.
type AdminServer struct {
	Admin         string   `help:"Listen address for health and metrics, host:port; empty: none." default:"${admin}"`
	AdminExpose   bool     `help:"Allow the admin port on non-loopback addresses: everyone who can reach it sees metrics and readiness."`
	AdminProfiles bool     `help:"Serve profiles (/debug/pprof/) on the admin port: they reveal memory contents and use processor time."`
	AllowedHosts  []string `help:"Additional allowed hosts, without port, in requests to the admin port and, without authentication, to the client port. The listen address and the loopback are always allowed; other hosts get 421." placeholder:"presence.internal,..."`
}

// validate refuses to open the admin port to other machines in silence, and what cannot be
// a host.
func (a AdminServer) validate() error {
	var all faults.List
	if a.Admin != "" && !a.AdminExpose {
		if host, ok := splitHost(a.Admin); !ok {
			all.If(true, "admin: %q must be host:port, e.g. 127.0.0.1:9090", a.Admin)
		} else {
			all.If(!isLoopback(host), "admin: %s is reachable from other machines, and everyone who reaches it sees metrics and readiness; "+
				"listen on 127.0.0.1, or restrict access by other means and set --admin-expose", a.Admin)
		}
	}
	for i, name := range a.AllowedHosts {
		all.If(name == "" || strings.ContainsAny(name, "/:*@ "),
			"allowed_hosts[%d]: %q must be a host without port, such as presence.internal", i, name)
	}
	return all.Err()
}

// validate reports everything that is wrong with the settings of the client port, joined.
// authenticated says whether tokens are needed there.
func (h HTTP) validate(authenticated bool) error {
	var all faults.List
	all.Add(validateListen(h.Listen, h.AllowUnauthenticated || authenticated))
	for i, pattern := range h.AllowedOrigins {
		from, err := url.Parse(strings.ReplaceAll(pattern, "*", "1"))
		_, bad := path.Match(pattern, "")
		all.If(errors.Join(err, bad) != nil || strings.HasPrefix(pattern, "*") || from.Scheme == "" || from.Host == "" || from.Path != "",
			"allowed_origins[%d]: %q must be scheme://host, such as https://chat.example.com or https://*.example.com", i, pattern)
	}
	_, err := parseProxies(h.TrustedProxies)
	all.Add(err)
	all.If(h.MaxPerAddress < 0, "max_connections_per_address: must not be negative")
	all.If(h.MaxPerUser < 0, "max_connections_per_user: must not be negative")
	all.If(h.MaxConnections < 0, "max_connections: must not be negative")
	most := spare(descriptors())
	all.If(h.MaxConnections > most,
		"max_connections: %d leaves this process too few of its %d descriptors; set at most %d, or raise the limit (ulimit -n)",
		h.MaxConnections, descriptors(), most)
	all.If(h.MaxStreams < 1, "max_streams: must be positive")
	all.If(h.MaxSubscriptions < 1 || h.MaxSubscriptions > maxSubscriptions,
		"max_subscriptions: must be between 1 and %d, is %d", maxSubscriptions, h.MaxSubscriptions)
	return all.Err()
}
