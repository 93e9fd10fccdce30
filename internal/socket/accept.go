package socket

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"syscall"

	"github.com/gobwas/ws"
)

// ErrOrigin says that a web page of another site has sent the request.
var ErrOrigin = errors.New("the origin is not allowed")

// Accept answers the handshake and takes the connection over. The caller must end it by Serve or
// Abort. After an error the client has been answered.
func Accept(w http.ResponseWriter, r *http.Request, o Options) (*Conn, error) {
	conn, with, _, err := ws.HTTPUpgrader{Timeout: o.WriteTimeout}.Upgrade(r, w)
	if err != nil {
		if conn != nil {
			_ = conn.Close() // the handshake's error is the cause
		}
		return nil, err
	}
	c, err := newConn(conn, o)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	if n := with.Reader.Buffered(); n > 0 { // the client did not wait for the answer
		c.early = make([]byte, n)
		if _, err := with.Read(c.early); err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
	return c, nil
}

func newConn(conn net.Conn, o Options) (c *Conn, err error) {
	c = &Conn{conn: conn, options: o, writing: make(chan struct{}, 1)}
	if kernels, ok := conn.(syscall.Conn); ok {
		c.raw, err = kernels.SyscallConn()
	}
	return c, err
}

// CheckOrigin refuses web pages of other sites, which could otherwise act in the name of the person
// who views them. The request's Origin must have the requested host, or match one of the patterns,
// such as https://*.example.com (path.Match, case does not matter). Requests without an Origin do
// not come from a web page.
func CheckOrigin(r *http.Request, patterns []string) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	from, err := url.Parse(origin)
	if err != nil || from.Host == "" {
		return ErrOrigin
	}
	if strings.EqualFold(from.Host, r.Host) {
		return nil
	}
	if !MatchesOrigin(patterns, origin) {
		return ErrOrigin
	}
	return nil
}

// MatchesOrigin reports whether a web origin matches one of the patterns of CheckOrigin.
func MatchesOrigin(patterns []string, origin string) bool {
	from, err := url.Parse(strings.ToLower(origin))
	if err != nil || strings.ContainsFunc(from.Host, notOfHost) ||
		from.Scheme+"://"+from.Host != strings.ToLower(origin) {
		return false // not exactly scheme, host and port
	}
	for _, pattern := range patterns {
		scheme, host, _ := strings.Cut(strings.ToLower(pattern), "://")
		if ok, err := path.Match(host, from.Host); err == nil && ok && scheme == from.Scheme {
			return true
		}
	}
	return false
}

// notOfHost reports whether a host with its port cannot have r. So a * in a pattern matches only
// parts of a host.
func notOfHost(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune(".-_:[]", r)
}
