//go:build unix

package attack_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/stillhere/stillhere/internal/auth"
)

func TestForgedAddressesAndOriginsAreRefused(t *testing.T) {
	t.Parallel()
	// One process is attacked in several ways.
	h := attackedHouse(t, 0, "--max-connections-per-address", "2", "--trusted-proxies", "127.0.0.1", "--allowed-origins", "https://*.friend.example",
		"--limit-requests", "0", "--limit-connects", "0")
	foreignOrigins(h)
	forgedAddresses(h)
}

// foreignOrigins are of pages that are not of https://*.friend.example, though they end
// like it.
func foreignOrigins(h *testkit.Dev) {
	h.Helper()
	bearer := "Authorization: Bearer " + scopedToken(h.T, 1, auth.Beat, auth.Read)
	for origin, allowed := range map[string]bool{
		"https://chat.friend.example": true,
		"https://friend.example":      false, "http://chat.friend.example": false, "https://chat.friend.example:8443": false, "null": false,
		"https://chat.friend.example.evil.example": false, "https://evil.example?.friend.example": false, "https://evil.example#.friend.example": false,
		"https://evil.example/.friend.example": false, `https://evil.example\.friend.example`: false, "https://evil.example%2f.friend.example": false,
		"https://evil.example;a.friend.example": false, "https://u@chat.friend.example": false,
	} {
		for _, request := range []string{"POST /presence/heartbeats", "GET /presence/connect?device_id=9", "GET /presence/stream?user_ids=1"} {
			lines := []string{request + " HTTP/1.1", "Host: " + h.Listen, bearer, "Origin: " + origin}
			want, body := http.StatusSwitchingProtocols, ""
			if strings.HasPrefix(request, "POST") {
				want, body = http.StatusAccepted, `{"beats":[{"user_id":"1","device_id":7}]}`
				lines = append(lines, "Content-Length: 41")
			} else {
				lines = append(lines, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
			}
			if !allowed {
				want = http.StatusForbidden
			}
			d := dialRaw(h.T, h.Listen)
			d.say(append(lines, "", body)...)
			answer := d.head(5 * time.Second)
			if answer == nil || answer.StatusCode != want || !allowed && answer.Header.Get("Access-Control-Allow-Origin") != "" {
				h.Errorf("%s from a page of %s: %+v, want %d", request, origin, answer, want)
			}
			d.Close()
		}
	}
}

// head is the next answer without its body, which may never end; nil: there is none.
func (d *dialed) head(limit time.Duration) *http.Response {
	if d.SetReadDeadline(time.Now().Add(limit)) != nil {
		return nil
	}
	answer, err := http.ReadResponse(d.read, nil)
	if err != nil {
		return nil
	}
	return answer
}

// forgedAddresses attacks a process whose clients may have two connections each, and
// that believes what 127.0.0.1 says of them.
func forgedAddresses(h *testkit.Dev) {
	h.Helper()
	h.Client.CloseIdleConnections()
	token := scopedToken(h.T, 1, auth.Read)
	// stream opens a stream for a client behind a proxy, or from an address of its own.
	stream := func(from, client string) (*dialed, *http.Response) {
		h.Helper()
		dialer := net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := dialer.Dial("tcp", h.Listen)
		if err != nil {
			h.Skipf("the loopback has no address %s here: %v", from, err)
		}
		h.Cleanup(func() { conn.Close() })
		d := newDialed(h.T, conn)
		d.say("GET /presence/stream?user_ids=1 HTTP/1.1", "Host: "+h.Listen, "Authorization: Bearer "+token, "Accept: text/event-stream", "X-Forwarded-For: "+client, "", "")
		return d, d.head(10 * time.Second)
	}
	opens := func(from, client string, status int) *dialed {
		h.Helper()
		d, answer := stream(from, client)
		if answer == nil && status == 0 || answer != nil && answer.StatusCode == status {
			return d
		}
		h.Errorf("a stream of %q from %s: %+v, want %d", client, from, answer, status)
		return d
	}
	const proxy, stranger = "127.0.0.1", "127.0.0.2"
	first := opens(proxy, "198.51.100.7", http.StatusOK)
	opens(proxy, "198.51.100.7", http.StatusOK)
	opens(proxy, "198.51.100.7", http.StatusServiceUnavailable)
	opens(proxy, "203.0.113.9, 198.51.100.7", http.StatusServiceUnavailable) // what is before it the client wrote
	opens(proxy, "198.51.100.8", http.StatusOK)                              // another client
	first.Close()
	testkit.Until(h.T, "the client has a place again", 10*time.Second, func() bool {
		_, answer := stream(proxy, "198.51.100.7")
		return answer != nil && answer.StatusCode == http.StatusOK
	})
	// An unauthenticated caller's word does not count: not for more places, nor for those of another.
	opens(stranger, "198.51.100.7", http.StatusOK)
	opens(stranger, "192.0.2.1", http.StatusOK)
	opens(stranger, "192.0.2.2", 0) // closed at once
}

func TestSecretsOnTheCommandLineAndAnOpenAdminPortAreRefusedOffTheLoopback(t *testing.T) {
	t.Parallel()
	testkit.Binary(t, "stillhere")
	const hush = "hush-this-is-a-secret-of-32-bytes-or-more"
	open, dir := "0.0.0.0:0", filepath.Join(t.TempDir(), "data")
	dev := func(more ...string) []string { return testkit.DevArguments(t, dir, more...) }
	for name, b := range map[string]testkit.BadStart{
		"the tokens' secret":           {Arguments: dev("--listen", open, "--auth-secret", hush), Says: []string{"--auth-secret:", "--auth-secret-file", "STILLHERE_AUTH_SECRET"}},
		"on the loopback":              {Arguments: dev("--auth-secret", hush), Says: []string{"--auth-secret:"}},
		"a password of Kafka":          {Arguments: []string{"ingest", "--listen", open, "--allow-unauthenticated", "--kafka-password", hush}, Says: []string{"--kafka-password:", "--kafka-password-file"}},
		"a password of Redis":          {Arguments: []string{"lastseen", "--admin", open, "--admin-expose", "--redis-password", hush}, Says: []string{"--redis-password:", "--redis-password-file"}},
		"a password in a URL":          {Arguments: []string{"lastseen", "--admin", open, "--admin-expose", "--postgres", "postgres://u:" + hush + "@127.0.0.1/x"}, Says: []string{"--postgres:", "STILLHERE_POSTGRES"}},
		"a webhook's secret":           {Arguments: []string{"channel", "webhook", "--url", "https://hooks.example", "--secret", hush}, Says: []string{"--secret:", "--secret-file", "STILLHERE_SECRET"}},
		"a webhook's URL":              {Arguments: []string{"channel", "webhook", "--url", "https://u:" + hush + "@hooks.example"}, Says: []string{"--url:", "STILLHERE_URL"}},
		"the admin port":               {Arguments: dev("--admin", open), Says: []string{"admin: 0.0.0.0:0", "--admin-expose"}},
		"the admin port, every":        {Arguments: dev("--admin", ":0"), Says: []string{"admin: :0", "--admin-expose"}},
		"the admin port, profiles":     {Arguments: dev("--admin", open, "--admin-profiles"), Says: []string{"admin: 0.0.0.0:0", "--admin-expose"}},
		"the admin port of a detector": {Arguments: []string{"detector", "--admin", open}, Says: []string{"admin: 0.0.0.0:0", "--admin-expose"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b.Code, b.Lines = 1, 1
			said := testkit.Refused(t, b)
			if strings.Contains(said, hush) {
				t.Errorf("the secret is in the output:\n%s", said)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("the data directory was made although nothing was started")
			}
		})
	}
}
