//go:build unix

package attack_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// These tests attack a process that runs as in production.

// attackedHouse is `stillhere dev` with authentication, with at most so many
// descriptors; 0: as many as the machine gives.
func attackedHouse(t *testing.T, descriptors int, flags ...string) *testkit.Dev {
	t.Helper()
	h := newGuardedHouse(t, flags...)
	if descriptors > 0 {
		h.Change = func(c *exec.Cmd) {
			limit := fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, descriptors)
			c.Args = append([]string{"sh", "-c", limit, c.Path}, c.Args[1:]...)
			c.Path = "/bin/sh"
		}
	}
	h.Up()
	return h
}

// scopedToken is a user's token.
func scopedToken(t *testing.T, user schemas.UserID, scopes ...string) string {
	t.Helper()
	return issued(t, auth.Caller{User: user, Scopes: scopes})
}

// dialed is a connection on which a test says what it likes.
type dialed struct {
	*testing.T
	net.Conn
	read *bufio.Reader
}

func dialRaw(t *testing.T, address string) *dialed {
	t.Helper()
	conn := must.Get(net.DialTimeout("tcp", address, 10*time.Second))(t)
	t.Cleanup(func() { conn.Close() })
	return newDialed(t, conn)
}

func newDialed(t *testing.T, conn net.Conn) *dialed { return &dialed{t, conn, bufio.NewReader(conn)} }

// say writes a request; lines end as HTTP wants them.
func (d *dialed) say(lines ...string) {
	// A server that has closed already is judged by what it says.
	_, _ = io.WriteString(d.Conn, strings.Join(lines, "\r\n"))
}

// answer is the next answer, with its body.
func (d *dialed) answer(limit time.Duration) (*http.Response, string, error) {
	if err := d.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return nil, "", err
	}
	answer, err := http.ReadResponse(d.read, nil)
	if err != nil {
		return nil, "", err
	}
	body, err := io.ReadAll(answer.Body)
	return answer, string(body), errors.Join(err, answer.Body.Close())
}

// closed reports whether the server closes the connection within the limit.
func (d *dialed) closed(limit time.Duration) bool {
	if d.SetReadDeadline(time.Now().Add(limit)) != nil {
		return true
	}
	_, err := io.Copy(io.Discard, d.read)
	var late net.Error
	return err == nil || !errors.As(err, &late) || !late.Timeout()
}

func TestBodiesThatNeverComeAreAnsweredAtOnceAndHoldNoConnection(t *testing.T) {
	t.Parallel()
	h := attackedHouse(t, 0)
	var asking sync.WaitGroup
	for _, request := range []string{
		"POST /presence/heartbeats", "PUT /presence/1/visibility", "GET /presence/batch?user_ids=1", "GET /presence/1",
		"GET /presence/1/history", "GET /presence/connect?device_id=1", "GET /presence/stream?user_ids=1", "POST /", "GET /nothing", "GET /openapi.yaml",
		"admin GET /livez", "admin GET /readyz", "admin GET /metrics", "admin POST /livez",
	} {
		for _, length := range []string{"Content-Length: 1000", "Content-Length: 10000000", "Transfer-Encoding: chunked"} {
			asking.Go(func() {
				address, line := h.Listen, request
				if rest, admin := strings.CutPrefix(request, "admin "); admin {
					address, line = h.Admin, rest
				}
				d := dialRaw(t, address)
				begun := time.Now()
				d.say(line+" HTTP/1.1", "Host: "+address, length, "", "")
				answer, _, err := d.answer(5 * time.Second)
				if err != nil || !answer.Close {
					t.Errorf("%s with %q: %v, closes: %v", request, length, err, answer != nil && answer.Close)
				}
				if !d.closed(5*time.Second - time.Since(begun)) {
					t.Errorf("%s with %q: the connection is still open after %s", request, length, time.Since(begun))
				}
			})
		}
	}
	// With a token the body is waited for, but not for ever.
	asking.Go(func() {
		d := dialRaw(t, h.Listen)
		d.say("POST /presence/heartbeats HTTP/1.1", "Host: "+h.Listen, "Authorization: Bearer "+scopedToken(t, 1, auth.Beat), "Content-Length: 1000", "", `{"beats":[`)
		if answer, _, err := d.answer(20 * time.Second); err != nil || answer.StatusCode != http.StatusRequestTimeout || !d.closed(5*time.Second) {
			t.Errorf("a body that stops: %v %v", answer, err)
		}
	})
	asking.Wait()
}

func TestConnectionsThatSayNothingLeaveTheAdminPortAndThoseWhoAreThereUndisturbed(t *testing.T) {
	t.Parallel()
	h := attackedHouse(t, 520)    // of which dev needs 220 for itself
	there := dialRaw(t, h.Listen) // a client that keeps its connection
	read := func() {
		t.Helper()
		there.say("GET /presence/1 HTTP/1.1", "Host: "+h.Listen, "Authorization: Bearer "+scopedToken(t, 1, auth.Read), "", "")
		if answer, body, err := there.answer(2 * time.Second); err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("who is there is answered %v %s %v", answer, body, err)
		}
	}
	read()
	for range 600 {
		dialRaw(t, h.Listen).say("POST /presence/heartbeats HTTP/1.1", "Host: x", "X: ")
	}
	read()
	live := dialRaw(t, h.Admin)
	live.say("GET /livez HTTP/1.1", "Host: "+h.Admin, "", "")
	if answer, _, err := live.answer(2 * time.Second); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("/livez: %v %v", answer, err)
	}
	testkit.Until(t, "the log warns of refused connections", 10*time.Second, func() bool { return strings.Contains(h.Err.String(), "connections are refused") })
	if n := strings.Count(h.Err.String(), "connections are refused"); n > 3 {
		t.Errorf("it warns %d times", n)
	}
	if refused := h.Metric(`stillhere_http_connections_refused_total{port="client",reason="full"}`); refused < 300 {
		t.Errorf("%v refused of 600 beyond 260", refused)
	}
	testkit.Until(t, "the endpoints are free again", 20*time.Second, func() bool {
		status, _, err := h.Ask(http.MethodGet, "/openapi.yaml", "", nil)
		return err == nil && status == http.StatusOK
	})
}

func TestSlowBodiesOfManyTokensKeepNobodyFromBeatingOrHiding(t *testing.T) {
	t.Parallel()
	h := attackedHouse(t, 0)
	// 16 tokens, 90 requests each: more than heartbeats have places.
	var refused atomic.Int32
	var slow sync.WaitGroup
	for user := range schemas.UserID(16) {
		token := scopedToken(t, 1000+user, auth.Beat)
		for range 90 {
			d := dialRaw(t, h.Listen)
			d.say("POST /presence/heartbeats HTTP/1.1", "Host: "+h.Listen, "Authorization: Bearer "+token, "Content-Length: 1000", "", `{"beats":[`)
			slow.Go(func() {
				if answer, _, err := d.answer(15 * time.Second); err == nil && answer.StatusCode == http.StatusTooManyRequests && answer.Close {
					refused.Add(1)
				}
			})
		}
	}
	honest := "Authorization: Bearer " + scopedToken(t, 1, auth.Beat)
	for line, want := range map[string]int{`POST /presence/heartbeats {"beats":[{"user_id":"1","device_id":7}]}`: 202, `PUT /presence/1/visibility {"visibility":"nobody"}`: 200} {
		words := strings.SplitN(line, " ", 3)
		begun, d := time.Now(), dialRaw(t, h.Listen)
		d.say(words[0]+" "+words[1]+" HTTP/1.1", "Host: "+h.Listen, honest, fmt.Sprint("Content-Length: ", len(words[2])), "", words[2])
		answer, body, err := d.answer(5 * time.Second)
		if err != nil || answer.StatusCode != want || time.Since(begun) > 2*time.Second {
			t.Errorf("an honest user's %s: %v %s %v, after %s", words[0], answer, body, err, time.Since(begun))
		}
	}
	slow.Wait()
	if n := refused.Load(); n < 16*20 {
		t.Errorf("%d slow bodies were refused, want all beyond 64 of a user", n)
	}
}

func TestWithoutAuthenticationRequestsForAnotherHostAreMisdirected(t *testing.T) {
	t.Parallel()
	open, guarded := testkit.NewDev(t), attackedHouse(t, 0)
	open.Up()
	for _, c := range []struct {
		address, host string
		misdirected   bool
	}{
		{open.Listen, "evil.example", true}, {open.Listen, "evil.example:8080", true}, {open.Listen, open.Listen, false}, {open.Listen, "localhost", false},
		{open.Admin, "evil.example", true}, {open.Admin, "localhost:9090", false},
		{guarded.Listen, "presence.example", false}, {guarded.Admin, "evil.example", true},
	} {
		for _, request := range []string{"GET /presence/1", "GET /", "GET /metrics", "GET /livez", "POST /presence/heartbeats", "GET /presence/stream?user_ids=1", "OPTIONS /presence/heartbeats"} {
			d := dialRaw(t, c.address)
			d.say(request+" HTTP/1.1", "Host: "+c.host, "Origin: http://"+c.host, "", "")
			answer, _, err := d.answer(time.Second) // a stream does not end
			if answer == nil || (answer.StatusCode == http.StatusMisdirectedRequest) != c.misdirected {
				t.Errorf("%s for %s: %v %v", request, c.host, answer, err)
			}
		}
	}
}

func TestTheAdminPortShowsNoCommandLineAndShowsNoMemoryUnasked(t *testing.T) {
	t.Parallel()
	h := testkit.NewDev(t)
	h.Change = func(c *exec.Cmd) { c.Env = append(c.Env, "STILLHERE_AUTH_SECRET="+attackSecret) }
	h.Up()
	for path, status := range map[string]int{"/debug/vars": 200, "/debug/pprof/": 404, "/debug/pprof/cmdline": 404, "/debug/pprof/heap": 404, "/": 200, "/metrics": 200} {
		answer := must.Get(h.Client.Get("http://" + h.Admin + path))(t)
		text, err := io.ReadAll(answer.Body)
		if answer.Body.Close(); err != nil || answer.StatusCode != status || strings.Contains(string(text), attackSecret) || strings.Contains(string(text), "cmdline") {
			t.Errorf("%s: %d %s", path, answer.StatusCode, text[:min(len(text), 200)])
		}
	}
	profiled := testkit.NewDev(t, "--admin-profiles")
	profiled.Up()
	for path, status := range map[string]int{"/debug/pprof/": 200, "/debug/pprof/cmdline": 404, "/debug/pprof/goroutine": 200} {
		answer := must.Get(profiled.Client.Get("http://" + profiled.Admin + path))(t)
		if answer.Body.Close(); answer.StatusCode != status {
			t.Errorf("with profiles %s: %d", path, answer.StatusCode)
		}
	}
}

func TestRequestsThatTwoServersMayReadDifferentlyEndTheirConnection(t *testing.T) {
	t.Parallel()
	h := testkit.NewDev(t)
	h.Up()
	const body = `{"beats":[{"user_id":"1","device_id":7}]}`
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	smuggled := chunked + "GET /presence/666 HTTP/1.1\r\nHost: " + h.Listen + "\r\n\r\n"
	for name, headers := range map[string][]string{
		"length first": {"Content-Length: 5", "Transfer-Encoding: chunked"}, "length last": {"Transfer-Encoding: chunked", "content-length: 5"},
	} {
		d := dialRaw(t, h.Listen)
		d.say(append([]string{"POST /presence/heartbeats HTTP/1.1", "Host: " + h.Listen, "Content-Type: application/json"}, append(headers, "", smuggled)...)...)
		answer, _, err := d.answer(5 * time.Second)
		if err != nil || !answer.Close || !d.closed(5*time.Second) {
			t.Errorf("%s: %+v %v", name, answer, err)
		}
	}
	// Chunked alone is ordinary, and the connection stays.
	d := dialRaw(t, h.Listen)
	for range 2 {
		d.say("POST /presence/heartbeats HTTP/1.1", "Host: "+h.Listen, "Transfer-Encoding: chunked", "", chunked)
		if answer, text, err := d.answer(5 * time.Second); err != nil || answer.StatusCode != http.StatusAccepted || answer.Close {
			t.Errorf("chunked: %+v %s %v", answer, text, err)
		}
	}
}

func TestNoAnswerCanBeFramedSniffedOrKept(t *testing.T) {
	t.Parallel()
	h := testkit.NewDev(t, "--allowed-origins", "https://chat.example")
	h.Up()
	for _, request := range []string{"GET /", "GET /presence/1", "GET /presence/batch?user_ids=1", "GET /presence/x", "GET /nothing", "POST /presence/heartbeats",
		"GET /openapi.yaml", "GET /presence/connect", "GET /presence/stream?user_ids=1", "OPTIONS /presence/1", "GET /presence/1/history", "admin GET /", "admin GET /metrics", "admin GET /readyz?verbose"} {
		address, line := h.Listen, request
		if rest, admin := strings.CutPrefix(request, "admin "); admin {
			address, line = h.Admin, rest
		}
		d := dialRaw(t, address)
		d.say(line+" HTTP/1.1", "Host: "+address, "", "")
		answer, _, _ := d.answer(time.Second) // a stream does not end
		if answer == nil {
			t.Errorf("%s is not answered", request)
			continue
		}
		header := answer.Header
		if header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(header.Get("Cache-Control"), "no-") ||
			!strings.Contains(header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s: %d %v", request, answer.StatusCode, header)
		}
	}
	for _, path := range []string{h.Dir} {
		if about, err := os.Stat(path); err != nil || about.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v", path, about.Mode(), err)
		}
	}
}
