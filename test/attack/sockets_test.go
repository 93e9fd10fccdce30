//go:build unix

package attack_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// flood opens a WebSocket by hand and sends the same frame over and over until the
// service closes it. It tells with which code and reason, and after how many frames.
func flood(h *testkit.Dev, token, path string, one []byte) (code int, reason string, sent int) {
	h.Helper()
	conn := must.Get(net.Dial("tcp", h.Listen))(h.T)
	defer conn.Close()
	must.Do(h.T, conn.SetDeadline(time.Now().Add(30*time.Second)))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nAuthorization: Bearer %s\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", path, h.Listen, token)
	from := bufio.NewReader(conn)
	answer, err := http.ReadResponse(from, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		h.Fatalf("the handshake of %s: %v %v", path, answer, err)
	}
	closed, writing := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-closed:
				writing <- n
				return
			default:
			}
			if _, err := conn.Write(one); err != nil {
				<-closed
				writing <- n
				return
			}
			n++
		}
	}()
	for {
		var head [2]byte
		_, err := io.ReadFull(from, head[:])
		var payload []byte
		if err == nil {
			size := int(head[1])
			if size == 126 {
				var long [2]byte
				_, err = io.ReadFull(from, long[:])
				size = int(long[0])<<8 | int(long[1])
			}
			payload = make([]byte, size)
			if err == nil {
				_, err = io.ReadFull(from, payload)
			}
		}
		if err != nil {
			close(closed)
			h.Fatalf("%s is broken off after %d frames, without a close: %v", path, <-writing, err)
		}
		if head[0] == 0x88 {
			close(closed)
			return int(payload[0])<<8 | int(payload[1]), string(payload[2:]), <-writing
		}
	}
}

func TestASocketOfPingsOrMessagesIsClosedAndOthersAreServed(t *testing.T) {
	t.Parallel()
	h := newGuardedHouse(t, "--limit-connects", "0")
	h.Up()
	ping, empty := []byte{0x89, 0x80, 0, 0, 0, 0}, []byte{0x81, 0x80, 0, 0, 0, 0}
	for _, path := range []string{"/presence/connect?device_id=1", "/presence/stream"} {
		for name, one := range map[string][]byte{"pings": ping, "empty messages": empty} {
			begun := time.Now()
			code, reason, sent := flood(h, tokenOf(t, 66, ""), path, one)
			if code != 1008 || !strings.Contains(reason, "50 messages a second") {
				t.Errorf("%s: a socket of %s is closed with %d %q", path, name, code, reason)
			}
			t.Logf("%s: a socket of %s was closed after %s and %d frames", path, name, time.Since(begun).Round(time.Millisecond), sent)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws://"+h.Listen+"/presence/connect?device_id=1&access_token="+tokenOf(t, 1, ""), nil)
	must.Do(t, err)
	defer conn.CloseNow()
	if _, hello, err := conn.Read(ctx); err != nil || !strings.Contains(string(hello), `"hello"`) {
		t.Errorf("an honest socket hears %s %v", hello, err)
	}
}

func TestOneUserHasAtMostTwentySocketsAndStreamsAndMayOpenAnotherWhenOneIsClosed(t *testing.T) {
	t.Parallel()
	h := newGuardedHouse(t, "--limit-connects", "0")
	h.Up()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	// open opens a connection and tells how it was answered; hangUp ends it.
	open := func(kind string, user schemas.UserID) (status int, answer string, hangUp func()) {
		t.Helper()
		path := map[string]string{"socket": "/presence/connect?device_id=1", "stream": "/presence/stream?", "events": "/presence/stream?user_ids=1"}[kind]
		url := h.Listen + path + "&access_token=" + tokenOf(t, user, "")
		if kind == "events" {
			request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, "http://"+url, nil))(t)
			response := must.Get(h.Client.Transport.RoundTrip(request))(t)
			if response.StatusCode == http.StatusOK {
				return 200, "", func() { response.Body.Close() }
			}
			defer response.Body.Close()
			text := must.Get(io.ReadAll(response.Body))(t)
			return response.StatusCode, string(text), nil
		}
		conn, response, err := websocket.Dial(ctx, "ws://"+url, nil)
		if err == nil {
			return 200, "", func() { conn.CloseNow() }
		}
		if response == nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body) // what the client kept of it
		return response.StatusCode, string(text), nil
	}
	kinds := []string{"socket", "stream", "events"}
	var hangUps []func()
	for i := range 20 {
		status, answer, hangUp := open(kinds[i%len(kinds)], 66)
		if status != 200 {
			t.Fatalf("connection %d of one user is answered %d %s", i+1, status, answer)
		}
		hangUps = append(hangUps, hangUp)
	}
	for _, kind := range kinds {
		status, answer, _ := open(kind, 66)
		if status != http.StatusTooManyRequests || !strings.Contains(answer, `"too_many_connections"`) || !strings.Contains(answer, "20 connections") {
			t.Errorf("a %s beyond the bound is answered %d %s", kind, status, answer)
		}
		status, answer, hangUp := open(kind, 1)
		if status != 200 {
			t.Fatalf("another user's %s is answered %d %s", kind, status, answer)
		}
		hangUp()
	}
	for i, kind := range kinds {
		hangUps[i]() // of this kind
		testkit.Until(t, "another "+kind+" is taken after one was closed", 20*time.Second, func() bool {
			status, _, hangUp := open(kind, 66)
			if status == 200 {
				hangUps = append(hangUps, hangUp)
			}
			return status == 200
		})
	}
	for _, hangUp := range hangUps[len(kinds):] {
		hangUp()
	}
}
