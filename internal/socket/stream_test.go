package socket_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/internal/socket"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/pipe"
)

func TestAnAnswerThatIsTakenOverKeepsItsHeadersAndEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	o := options()
	o.PingInterval = 5 * time.Millisecond
	ended := make(chan struct{})
	defer func() { <-ended }()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Access-Control-Allow-Origin", "https://chat.example")
		conn, err := socket.TakeOver(w, o)
		if err != nil {
			t.Error(err)
			close(ended)
			return
		}
		quiets := 0
		go func() {
			defer close(ended)
			conn.Watch(func() {
				if quiets++; quiets == 3 {
					conn.Abort()
				} else if err := conn.Send([]byte("quiet\n")); err != nil {
					t.Error(err)
				}
			})
			if conn.Send([]byte("too late")) == nil {
				t.Error("an ended connection takes more")
			}
		}()
	}))
	defer server.Close()
	// What the client says after its request is read away, and says nothing.
	body := strings.NewReader("what nobody asked for")
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, body))(t)
	answer := must.Get(server.Client().Do(request))(t)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Access-Control-Allow-Origin") == "" || !answer.Close {
		t.Error(answer.Status, answer.Header)
	}
	if at, err := http.ParseTime(answer.Header.Get("Date")); err != nil || time.Since(at) > time.Minute {
		t.Error(at, err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil || string(text) != "quiet\nquiet\n" {
		t.Errorf("%q %v", text, err)
	}
}

func TestWhatCannotBeTakenOverIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	if _, err := socket.TakeOver(w, options()); !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
	if w.Body.Len() > 0 || w.Flushed {
		t.Error("it was answered")
	}
}

// pipes is a listener of connections in memory, for virtual time.
type pipes struct {
	conns chan net.Conn
	close sync.Once // httptest closes twice
}

func (p *pipes) Accept() (net.Conn, error) {
	if conn, open := <-p.conns; open {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (p *pipes) Close() error   { p.close.Do(func() { close(p.conns) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p *pipes) dial() (net.Conn, error) {
	client, server := pipe.New()
	p.conns <- server
	return client, nil
}

func TestASilentClientIsPingedAndThenGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options()
		o.PingInterval, o.WriteTimeout = 40*time.Second, 10*time.Second
		quiets := make(chan struct{}, 1000)
		d := openOn(t, &pipes{conns: make(chan net.Conn)}, o, func(*socket.Conn) { quiets <- struct{}{} })
		answers := d.dial(t)
		var reading sync.WaitGroup
		reading.Go(func() { _, _, _ = answers.Read(t.Context()) }) // which answers pings
		defer reading.Wait()
		defer answers.CloseNow()
		for range 30 {
			<-quiets
		}
		if len(d.ended) > 0 {
			t.Fatalf("a client that answers pings was given up: %v", <-d.ended)
		}
		_, from := d.raw(t)
		d.endsWith(t, socket.ErrSilent)
		if got, err := io.ReadAll(from); err != nil || !strings.HasPrefix(string(got), "\x89\x00") {
			t.Errorf("%x %v", got, err)
		}
	})
}

func TestAClientThatStopsInsideAFrameIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openOn(t, &pipes{conns: make(chan net.Conn)}, options(), nil)
		conn, _ := d.raw(t)
		must.Get(conn.Write(frame(0x81, "half a message")[:9]))(t)
		d.endsWith(t, socket.ErrUnfinished)
	})
}
