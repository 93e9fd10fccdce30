package socketgate_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/ingest/socketgate"
	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/testkit/beattest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestStopAsksClientsToReconnectAndIsNoBye(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), nil, func(d endpoint) {
		var peers []*peer
		for i := range 20 {
			p := d.connect(fmt.Sprintf("user_id=%d&device_id=7", i+1))
			p.hears()
			peers = append(peers, p)
		}
		d.beats.take()
		began := time.Now()
		d.stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("stopping took %s", took)
		}
		delays := map[string]bool{}
		for _, p := range peers {
			m := p.hears()
			if !strings.HasPrefix(m, `{"type":"reconnect","after_ms":`) {
				t.Errorf("got %s", m)
			}
			delays[m] = true
			if err := <-p.ended; websocket.CloseStatus(err) != websocket.StatusGoingAway {
				t.Errorf("ended with %v, want 1001", err)
			}
		}
		if len(delays) < 10 {
			t.Errorf("%d different delays for 20 clients", len(delays))
		}
		d.expect()
		_, answer, err := websocket.Dial(context.Background(), "ws://presence.example/presence/connect?"+phone,
			&websocket.DialOptions{HTTPClient: d.http})
		if err == nil || answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
			t.Errorf("got %v, %v after the stop", answer, err)
		}
	})
}

func TestPeerThatDoesNotReadIsCutOffWhenStopping(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), nil, func(d endpoint) {
		d.raw(phone) // never reads again: neither the hello nor the close gets through
		synctest.Wait()
		began := time.Now()
		d.stop()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("stopping took %s, want at most the drain timeout", took)
		}
		d.expect(beatIs(0))
	})
}

// raw opens a socket and reads no more than the answer to the handshake.
func (d endpoint) raw(query string) net.Conn {
	d.t.Helper()
	conn, err := d.http.Transport.(*http.Transport).DialContext(context.Background(), "", "")
	must.Do(d.t, err)
	d.t.Cleanup(func() { _ = conn.Close() })
	fmt.Fprintf(conn, "GET /presence/connect?%s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", query)
	buffer := make([]byte, 4096)
	if n, err := conn.Read(buffer); err != nil || !strings.Contains(string(buffer[:n]), " 101 ") {
		d.t.Fatalf("got %q, %v", buffer[:n], err)
	}
	return conn
}

func TestPeerThatTakesNoMessagesIsCutOffAfterTheWriteTimeout(t *testing.T) {
	t.Parallel()
	ended := make(chan time.Time, 1)
	open := func(schemas.UserID, schemas.Name, bool, func([]byte) error) (func([]byte) bool, func()) {
		return func([]byte) bool { return false }, func() { ended <- time.Now() }
	}
	inBubble(t, config(), open, func(d endpoint) {
		began := time.Now()
		d.raw(phone)
		pass(11 * time.Second)
		select {
		case at := <-ended:
			if took := at.Sub(began); took != 10*time.Second {
				t.Errorf("cut off after %s, want 10 s", took)
			}
		default:
			t.Error("not cut off")
		}
		d.expect(beatIs(0))
	})
}

func TestSilentClientIsCutOffWithoutABye(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), nil, func(d endpoint) {
		began := time.Now()
		p := d.connect(phone) // answers pings, but says nothing
		if err := <-p.ended; websocket.CloseStatus(err) != 4408 {
			t.Errorf("ended with %v, want 4408", err)
		}
		if took := time.Since(began); took < 45*time.Second || took > time.Minute {
			t.Errorf("cut off after %s, want 45 s to a minute", took)
		}
		d.expect(beatIs(0))
	})
}

func TestSocketsAreBounded(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Sockets.MaxSockets = 1
	inBubble(t, cfg, nil, func(d endpoint) {
		p := d.connect(phone)
		_, answer, err := websocket.Dial(context.Background(), "ws://presence.example/presence/connect?"+phone,
			&websocket.DialOptions{HTTPClient: d.http})
		if err == nil || answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
			t.Errorf("got %v, %v", answer, err)
		}
		p.close(websocket.StatusNormalClosure)
		d.connect(phone).abortAll()
	})
}

func TestSocketWhoseBeatsAreRefusedIsAskedToTryLater(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), nil, func(d endpoint) {
		d.beats.refuse = errors.New("full")
		p := d.connect(phone)
		if err := <-p.ended; websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
			t.Errorf("ended with %v, want 1013", err)
		}
	})
}

func TestOnlyAllowedOriginsComeIn(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.AllowedOrigins = []string{"https://*.example.org"}
	inBubble(t, cfg, nil, func(d endpoint) {
		for origin, allowed := range map[string]bool{
			"": true, "http://presence.example": true, "https://app.example.org": true,
			"https://evil.example": false, "http://app.example.org": false, "null": false,
		} {
			header := http.Header{}
			if origin != "" {
				header.Set("Origin", origin)
			}
			conn, answer, err := websocket.Dial(context.Background(), "ws://presence.example/presence/connect?"+phone,
				&websocket.DialOptions{HTTPClient: d.http, HTTPHeader: header})
			if allowed != (err == nil) || !allowed && answer.StatusCode != http.StatusForbidden {
				t.Errorf("%q: got %v, %v", origin, answer, err)
			}
			if err == nil {
				_ = conn.CloseNow()
			}
		}
	})
}

// TestSocketToFrameOverTCP goes from a socket through the buffer to the log, in real time.
func TestSocketToFrameOverTCP(t *testing.T) {
	t.Parallel()
	took := make(chan beattest.Written, 1000)
	log := &beattest.Log{Partitions: 4, Took: func(w beattest.Written) { took <- w }}
	c, err := beat.New(beat.Config{GatewayID: "ingest-1", Partitions: 4}, log)
	must.Do(t, err)
	gate, err := socketgate.New(config(), c, nil, ingest.NewMetrics(nil))
	must.Do(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- gate.Run(ctx) }()
	mux := http.NewServeMux()
	gate.Routes(mux)
	server := httptest.NewServer(mux)
	defer server.Close()

	plain, err := server.Client().Get(server.URL + "/presence/connect?" + phone)
	if err != nil || plain.StatusCode != http.StatusUpgradeRequired {
		t.Fatalf("got %v, %v without an upgrade", plain, err)
	}
	plain.Body.Close()
	dial := func(query string) *websocket.Conn {
		conn, _, err := websocket.Dial(t.Context(), server.URL+"/presence/connect?"+query, nil)
		must.Do(t, err)
		return conn
	}
	leaves, stays := dial(phone), dial("user_id=2&device_id=8")
	if _, m, err := leaves.Read(t.Context()); err != nil || string(m) != hello {
		t.Fatalf("got %s, %v", m, err)
	}
	saw := func(all []schemas.Beat, user schemas.UserID, bye bool) bool {
		return slices.ContainsFunc(all, func(b schemas.Beat) bool { return b.User == user && b.Bye == bye })
	}
	deadline, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	await := func(user schemas.UserID, bye bool) {
		t.Helper()
		for !saw(log.Beats(), user, bye) {
			select {
			case <-took:
			case <-deadline.Done():
				t.Fatalf("no beat of user %d with bye %t", user, bye)
			}
		}
	}
	await(1, false)
	await(2, false)
	must.Do(t, leaves.Close(websocket.StatusNormalClosure, ""))
	await(1, true)
	reading := make(chan error, 1)
	go func() {
		for {
			if _, _, err := stays.Read(deadline); err != nil {
				reading <- err
				return
			}
		}
	}()
	stop()
	must.Do(t, <-done)
	if err := <-reading; websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Fatalf("ended with %v, want 1001", err)
	}
	must.Do(t, c.Close(deadline))
	written := log.Written()
	last := written[len(written)-1]
	if !last.Draining || last.Partition != schemas.PartitionOf(2, 4) || saw(log.Beats(), 2, true) {
		t.Fatalf("got %+v last, want the draining frame and no bye of user 2", last)
	}
}
