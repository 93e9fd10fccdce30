package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestOnlyPagesOfNamedOriginsMayUseTheEndpointsFromABrowser(t *testing.T) {
	t.Parallel()
	handler := allowOrigins([]string{"https://*.example.com"}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
	for origin, allowed := range map[string]bool{"https://chat.example.com": true, "https://CHAT.example.com": true, "http://chat.example.com": false,
		"https://example.com": false, "https://chat.example.com.evil.example": false, "null": false} {
		ask := httptest.NewRequest(http.MethodOptions, "/presence/heartbeats", nil)
		ask.Header.Set("Origin", origin)
		ask.Header.Set("Access-Control-Request-Method", http.MethodPost)
		ask.Header.Set("Access-Control-Request-Headers", "authorization,content-type")
		request := httptest.NewRequest(http.MethodGet, "/presence/batch", nil)
		request.Header.Set("Origin", origin)
		for what, r := range map[string]*http.Request{"preflight": ask, "request": request} {
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, r)
			if got := answer.Header().Get("Access-Control-Allow-Origin"); (got == origin) != allowed {
				t.Errorf("%s of %q: allowed %q", what, origin, got)
			}
			if reached := answer.Code == http.StatusTeapot; reached != (what == "request") {
				t.Errorf("%s of %q: %d", what, origin, answer.Code)
			}
		}
	}
}

func TestWrongSettingsForTheWebAreNamed(t *testing.T) {
	t.Parallel()
	c := Defaults()
	c.AllowedOrigins = []string{"https://chat.example.com", "http://localhost:*", "*", "chat.example.com", "https://a.example/path", "*://a.example", "https://[a"}
	c.TrustedProxies = []string{"10.0.0.0/8", "::1", "proxy.example"}
	c.MaxConnections, c.MaxPerAddress, c.MaxStreams = 1<<31, -1, 0
	err := c.HTTP.validate(false)
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, name := range []string{"allowed_origins[2]", "allowed_origins[3]", "allowed_origins[4]", "allowed_origins[5]", "allowed_origins[6]", "max_connections:", "trusted_proxies[2]", "max_connections_per_address:", "max_streams"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in %q", name, err)
		}
	}
	if strings.Contains(err.Error(), "[0]") || strings.Contains(err.Error(), "[1]") {
		t.Error(err)
	}
}

func TestAnAddressHasOnlySoManyConnectionsAndOthersTheirOwn(t *testing.T) {
	t.Parallel()
	inner := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	metrics := newConnectionMetrics(prometheus.NewRegistry())
	l := newBounded(inner, clientPort, 100, 2, metrics, slog.New(slog.DiscardHandler))
	accepted := make(chan net.Conn, 10)
	ended := make(chan error, 1)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- conn
		}
	}()
	dial := func(from string) net.Conn {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn := must.Get(dialer.DialContext(t.Context(), "tcp", inner.Addr().String()))(t)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	accept := func() net.Conn {
		t.Helper()
		select {
		case conn := <-accepted:
			return conn
		case <-time.After(10 * time.Second):
			t.Fatal("not accepted")
			return nil
		}
	}
	refuse := func(conn net.Conn) {
		t.Helper()
		must.Do(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
		var timeout net.Error
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
			t.Fatal("not refused", err)
		}
	}
	dial("127.0.0.1")
	first := accept()
	dial("127.0.0.1")
	accept()
	refuse(dial("127.0.0.1"))
	dial("127.0.0.2")
	accept()
	for range 2 { // closed twice, left once
		_ = first.Close()
	}
	dial("127.0.0.1")
	accept()
	refuse(dial("127.0.0.1"))
	if n := testutil.ToFloat64(metrics.refused.WithLabelValues(clientPort, "address")); n != 2 {
		t.Errorf("%v refused", n)
	}
	l.limit(100, 0)
	dial("127.0.0.1")
	accept()
	l.limit(100, 3) // those of before count
	refuse(dial("127.0.0.1"))
	if err := l.Close(); err != nil || <-ended == nil {
		t.Fatal(err)
	}
}

func TestAnIPv6NetworkCountsAsOneAddress(t *testing.T) {
	t.Parallel()
	at := func(ip string) netip.Prefix { return sourceOf(&net.TCPAddr{IP: net.ParseIP(ip)}) }
	if at("2001:db8::1") != at("2001:db8::ffff:1") || at("2001:db8::1") == at("2001:db8:0:1::1") || at("::ffff:192.0.2.1") != at("192.0.2.1") || at("192.0.2.1") == at("192.0.2.2") {
		t.Error("addresses are told apart wrongly")
	}
}

// A stream is a connection that its HTTP server has given away; it counts until it ends.
func TestAConnectionThatWasTakenOverCountsUntilItEnds(t *testing.T) {
	t.Parallel()
	taken := make(chan net.Conn, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
		}
		taken <- conn
	}))
	l := newBounded(server.Listener, clientPort, 1, 0, newConnectionMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	server.Listener = l
	server.Start()
	defer server.Close()
	conn := must.Get(new(net.Dialer).DialContext(context.Background(), "tcp", server.Listener.Addr().String()))(t)
	defer conn.Close()
	must.Get(io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
	held := <-taken
	if l.enter(sourceOf(conn.LocalAddr())) == "" {
		t.Error("there is room for another")
	}
	if err := held.Close(); err != nil || l.enter(sourceOf(conn.LocalAddr())) != "" {
		t.Error("there is no room after it", err)
	}
}
