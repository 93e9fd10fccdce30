package socketgate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

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
		d.refuses(phone, http.StatusServiceUnavailable)
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
	conn := must.Get(d.http.Transport.(*http.Transport).DialContext(context.Background(), "", ""))(d.t)
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
		d.expect(beatIs(0), lost(10*time.Second))
	})
}

func TestAClientThatOnlyAnswersPingsStays(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), nil, func(d endpoint) {
		p := d.connect(phone)
		pass(time.Hour)
		d.expect(beatIs(0))
		p.abortAll()
		d.losesWithin(0, 15*time.Second)
	})
}

// losesWithin expects one loss of a device that was heard so long before it.
func (d endpoint) losesWithin(least, most time.Duration) {
	d.t.Helper()
	synctest.Wait()
	if all := d.beats.take(); len(all) != 1 || !all[0].lost || all[0].ago < least || all[0].ago > most {
		d.t.Errorf("got %+v, want a device that was heard %s to %s before", all, least, most)
	}
}

func TestAClientThatAnswersNoPingIsLostSinceItWasHeard(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), nil, func(d endpoint) {
		conn := d.raw(phone)
		go func() { _, _ = io.Copy(io.Discard, conn) }() // takes what comes, and answers nothing
		d.expect(beatIs(0))
		pass(26 * time.Second)
		d.losesWithin(15*time.Second, 25*time.Second)
	})
}

func TestSocketsAreBounded(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Sockets.MaxSockets = 1
	inBubble(t, cfg, nil, func(d endpoint) {
		p := d.connect(phone)
		d.refuses(phone, http.StatusServiceUnavailable)
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
		for _, origin := range []string{"http://presence.example", "https://app.example.org"} {
			d.connect(phone, func(o *websocket.DialOptions) { o.HTTPHeader = http.Header{"Origin": {origin}} }).abortAll()
		}
		for _, origin := range []string{"https://evil.example", "http://app.example.org", "null"} {
			if answer := d.refused(phone, origin); answer.StatusCode != http.StatusForbidden {
				t.Errorf("%q: got %v", origin, answer)
			}
		}
	})
}
