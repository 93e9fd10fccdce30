package live_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// front serves the stream over one version of HTTP.
type front struct {
	*rig
	url    string
	client *http.Client
}

// overEach runs a test with a connection for each stream, over TLS and not, and with
// one for all of them.
func overEach(t *testing.T, test func(t *testing.T, f front), tweaks ...func(*fanout.Config)) {
	for version, start := range map[string]func(*httptest.Server){
		"HTTP/1.1":          (*httptest.Server).Start,
		"HTTP/1.1 over TLS": (*httptest.Server).StartTLS,
		"HTTP/2": func(s *httptest.Server) {
			s.EnableHTTP2 = true
			s.StartTLS()
		},
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, redistest.Mini(t), tweaks...)
			server := httptest.NewUnstartedServer(g.server)
			start(server)
			t.Cleanup(func() { g.stop(); server.Close() })
			test(t, front{g, server.URL, server.Client()})
		})
	}
}

// get asks for events; the answer is closed with the test.
func (f front) get(ctx context.Context, t *testing.T, query string) *http.Response {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/presence/stream"+query, nil))(t)
	request.Header.Set("Accept", "text/event-stream")
	answer := must.Get(f.client.Do(request))(t)
	t.Cleanup(func() { answer.Body.Close() })
	return answer
}

// listener reads events.
type listener struct {
	t        *testing.T
	lines    *bufio.Scanner
	comments int
	retry    string // what an EventSource is told to wait, in milliseconds
}

func (l *listener) next() (m watch.Message) {
	l.t.Helper()
	for l.lines.Scan() {
		if retry, ok := strings.CutPrefix(l.lines.Text(), "retry: "); ok {
			l.retry = retry
			continue
		}
		data, ok := strings.CutPrefix(l.lines.Text(), "data: ")
		if !ok {
			l.comments += strings.Count(l.lines.Text(), ":")
			continue
		}
		must.Do(l.t, json.Unmarshal([]byte(data), &m))
		return m
	}
	l.t.Fatal("the stream has ended", l.lines.Err())
	return m
}

func (l *listener) expect(kind string) watch.Message {
	l.t.Helper()
	m := l.next()
	if m.Type != kind {
		l.t.Fatalf("%+v is no %s", m, kind)
	}
	return m
}

func TestServerSentEventsCarryTheSameMessages(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, f front) {
		for _, query := range []string{"", "?user_ids=", "?user_ids=1,x", "?user_ids=0"} {
			if answer := f.get(t.Context(), t, query); answer.StatusCode != http.StatusBadRequest {
				t.Errorf("%q: %s", query, answer.Status)
			}
		}
		answer := f.get(t.Context(), t, "?user_ids=1,2&user_ids=1")
		if kind := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || kind != "text/event-stream" {
			t.Fatalf("%s %s", answer.Status, kind)
		}
		if answer.Header.Get("Date") == "" || answer.Header.Get("Cache-Control") != "no-store" {
			t.Error(answer.Header)
		}
		l := &listener{t: t, lines: bufio.NewScanner(answer.Body)}
		l.expect(watch.Hello)
		if m := l.expect(watch.Snapshot); len(m.Users) != 2 {
			t.Fatalf("%+v", m)
		}
		anna := &person{id: 1}
		for range 3 {
			f.happen(anna.becomes(schemas.Online))
			sameJSON(t, l.expect(watch.Change).User, f.view.one(t, 1))
		}
		for l.comments == 0 && l.lines.Scan() { // signs of life
			l.comments += strings.Count(l.lines.Text(), ":")
		}
		stopped := make(chan struct{})
		go func() { defer close(stopped); f.stop() }()
		if m := l.expect(watch.Reconnect); l.retry != strconv.FormatInt(m.AfterMillis, 10) {
			t.Errorf("an EventSource is told to wait for %q ms, others for %d", l.retry, m.AfterMillis)
		}
		for l.lines.Scan() {
		}
		if err := l.lines.Err(); err != nil {
			t.Error("the stream does not end as an answer does:", err)
		}
		<-stopped
		f.gone()
	}, func(c *fanout.Config) { c.PingInterval = 10 * time.Millisecond })
}

func TestAnEventStreamEndsWithItsToken(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t))
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := auth.WithTerm(r.Context(), time.Now().Add(50*time.Millisecond), nil)
		defer cancel()
		g.server.ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(func() { g.stop(); front.Close() })
	answer := must.Get(front.Client().Get(front.URL + "/presence/stream?user_ids=1"))(t)
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Error(err)
	}
	eventually(t, "it is counted", func() bool { return valueOf(g.metrics.Disconnected.WithLabelValues("token_ended")) == 1 })
	g.gone()
}

func TestAnOpenEventStreamIsSentAnotherHeartbeatIntervalOnce(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, f front) {
		l := &listener{t: t, lines: bufio.NewScanner(f.get(t.Context(), t, "?user_ids=1").Body)}
		l.expect(watch.Hello)
		l.expect(watch.Snapshot)
		for _, jitter := range []time.Duration{0, time.Second} { // the second time it alone is another one
			f.server.Follow(schemas.ScheduleOf(5*time.Second, jitter), nil)
			if got := l.expect(watch.Hello).Schedule(); got != schemas.ScheduleOf(5*time.Second, jitter) {
				t.Errorf("got %+v", got)
			}
		}
		for l.comments = 0; l.comments < 3 && l.lines.Scan(); l.comments += strings.Count(l.lines.Text(), ":") {
			if strings.Contains(l.lines.Text(), "hello") {
				t.Fatal("another hello")
			}
		}
	}, func(c *fanout.Config) { c.PingInterval = 10 * time.Millisecond })
}

func TestAnEventStreamThatItsClientClosesIsRemoved(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, f front) {
		ctx, leave := context.WithCancel(t.Context())
		l := &listener{t: t, lines: bufio.NewScanner(f.get(ctx, t, "?user_ids=1").Body)}
		l.expect(watch.Hello)
		l.expect(watch.Snapshot)
		leave()
		f.gone()
		eventually(t, "nobody is connected", func() bool { return valueOf(f.metrics.Connections.WithLabelValues("events")) == 0 })
	})
}

// narrow has the kernel keep little of what is sent.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	conn, err := n.Listener.Accept()
	if err == nil {
		err = conn.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return conn, err
}

// A listener that takes nothing in is behind for too long, and closed.
func TestAnEventStreamThatIsNotReadIsClosed(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t), func(c *fanout.Config) { c.WriteTimeout = 50 * time.Millisecond })
	server := httptest.NewUnstartedServer(g.server)
	server.Listener = narrow{server.Listener}
	server.Start()
	t.Cleanup(func() { g.stop(); server.Close() })
	conn := must.Get(net.Dial("tcp", server.Listener.Addr().String()))(t)
	defer conn.Close()
	must.Do(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	must.Get(conn.Write([]byte("GET /presence/stream?user_ids=1 HTTP/1.1\r\nHost: x\r\n\r\n")))(t)
	eventually(t, "it is subscribed", func() bool { return valueOf(g.metrics.Subscriptions) == 1 })
	anna := &person{id: 1}
	closed := g.metrics.Disconnected.WithLabelValues("write")
	eventually(t, "it is closed", func() bool {
		g.happen(anna.flips(200)...)
		return valueOf(closed) == 1
	})
	g.gone()
}
