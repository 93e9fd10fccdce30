package socketgate_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/ingest/socketgate"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/pipe"
	"github.com/stillhere/stillhere/internal/testkit/tenantstest"
	"github.com/stillhere/stillhere/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// said is a call of Beats.
type said struct {
	user   schemas.UserID
	device schemas.DeviceID
	kind   schemas.DeviceKind
	idle   time.Duration
	bye    bool
	lost   bool
	ago    time.Duration // of a lost one
	name   schemas.Name
}

// recorder is a Beats that remembers.
type recorder struct {
	mu     sync.Mutex
	all    []said
	refuse error
}

func (r *recorder) add(s said) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, s)
	return r.refuse
}

func (r *recorder) Hold(
	u schemas.UserID, name *schemas.Name, d schemas.DeviceID, k schemas.DeviceKind, idle time.Duration,
) error {
	s := said{user: u, device: d, kind: k, idle: idle}
	if name != nil {
		s.name = *name
	}
	return r.add(s)
}

func (r *recorder) Bye(u schemas.UserID, d schemas.DeviceID) error {
	return r.add(said{user: u, device: d, bye: true})
}

func (r *recorder) Lost(u schemas.UserID, d schemas.DeviceID, ago time.Duration) error {
	return r.add(said{user: u, device: d, lost: true, ago: ago})
}

// take returns what was said since it was last asked.
func (r *recorder) take() []said {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

// endpoint is a gate behind a server in virtual time.
type endpoint struct {
	t     *testing.T
	beats *recorder
	http  *http.Client
	stop  func() // ends Run and waits for it; may be called twice
}

func config() ingest.Config {
	cfg := ingest.Defaults()
	cfg.GatewayID, cfg.Partitions = "ingest-1", 4
	return cfg
}

// inBubble runs a test with an endpoint in virtual time.
func inBubble(t *testing.T, cfg ingest.Config, open socketgate.OpenStream, test func(d endpoint)) {
	t.Helper()
	inBubbleOf(t, cfg, open, nil, test)
}

// inBubbleOf is inBubble with quotas of tenants.
func inBubbleOf(t *testing.T, cfg ingest.Config, open socketgate.OpenStream, quotas []schemas.Tenant, test func(d endpoint)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		beats := &recorder{}
		g := must.Get(socketgate.New(cfg, beats, open, ingest.NewMetrics(nil)))(t)
		if quotas != nil {
			g.BoundTenants(tenantstest.Accounts(t, quotas...))
		}
		mux := http.NewServeMux()
		g.Routes(mux)
		listener := pipe.Listen()
		server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			if err := g.Run(ctx); err != nil {
				t.Error(err)
			}
		}()
		stop := func() { cancel(); <-stopped }
		transport := &http.Transport{DialContext: listener.DialContext}
		test(endpoint{t, beats, &http.Client{Transport: transport}, stop})
		stop()
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		running.Wait()
		synctest.Wait()
	})
}

// peer is a client. Its reader runs all the time, as a browser's does: pongs and
// closes are answered.
type peer struct {
	*websocket.Conn
	t        *testing.T
	messages chan string
	ended    chan error
}

func (d endpoint) connect(query string, options ...func(*websocket.DialOptions)) *peer {
	d.t.Helper()
	o := &websocket.DialOptions{HTTPClient: d.http}
	for _, option := range options {
		option(o)
	}
	conn, _, err := websocket.Dial(context.Background(), "ws://presence.example/presence/connect?"+query, o)
	must.Do(d.t, err)
	p := &peer{conn, d.t, make(chan string, 1000), make(chan error, 1)}
	go func() {
		for {
			_, message, err := conn.Read(context.Background())
			if err != nil {
				p.ended <- err
				return
			}
			p.messages <- string(message)
		}
	}()
	synctest.Wait()
	return p
}

// refused is the answer to a connect that must have another status than 101.
func (d endpoint) refused(query, origin string) *http.Response {
	d.t.Helper()
	header := http.Header{}
	if origin != "" {
		header.Set("Origin", origin)
	}
	conn, answer, err := websocket.Dial(context.Background(), "ws://presence.example/presence/connect?"+query,
		&websocket.DialOptions{HTTPClient: d.http, HTTPHeader: header})
	if err == nil {
		_ = conn.CloseNow()
		d.t.Errorf("%s of origin %q is answered 101", query, origin)
	}
	return answer
}

// refuses fails unless a connect is answered with a status, and when to come again.
func (d endpoint) refuses(query string, status int) {
	d.t.Helper()
	if answer := d.refused(query, ""); answer.StatusCode != status || answer.Header.Get("Retry-After") == "" {
		d.t.Errorf("%s is answered %+v, want %d", query, answer, status)
	}
}

func (p *peer) say(message string) {
	p.t.Helper()
	if err := p.Write(context.Background(), websocket.MessageText, []byte(message)); err != nil {
		p.t.Error(err)
	}
	synctest.Wait()
}

// hears is the next message; it must be there.
func (p *peer) hears() string {
	p.t.Helper()
	synctest.Wait()
	select {
	case m := <-p.messages:
		return m
	default:
		p.t.Error("no message")
		return ""
	}
}

func (p *peer) ping() {
	p.t.Helper()
	if err := p.Ping(context.Background()); err != nil {
		p.t.Error(err)
	}
	synctest.Wait()
}

func (p *peer) close(code websocket.StatusCode) {
	// A close that crosses the server's is no fault.
	_ = p.Close(code, "")
	synctest.Wait()
}

// cut loses the connection.
func (p *peer) abortAll() {
	_ = p.CloseNow()
	synctest.Wait()
}

// pass lets virtual time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (d endpoint) expect(want ...said) {
	d.t.Helper()
	synctest.Wait()
	if got := d.beats.take(); !slices.Equal(got, want) {
		d.t.Errorf("got %+v, want %+v", got, want)
	}
}

const (
	phone = "user_id=1&device_id=7&device_kind=mobile"
	hello = `{"type":"hello","heartbeat_interval_ms":15000,"heartbeat_jitter_ms":1500,"max_subscriptions":500}`
)

func beatIs(idle time.Duration) said {
	return said{user: 1, device: 7, kind: schemas.Mobile, idle: idle}
}

func lost(ago time.Duration) said { return said{user: 1, device: 7, lost: true, ago: ago} }

func bye() said { return said{user: 1, device: 7, bye: true} }
