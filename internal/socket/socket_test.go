package socket_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/stillhere/stillhere/internal/socket"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers every message with itself and tells what else happens.
type echo struct {
	conn  *socket.Conn
	seen  chan string
	quiet func(*socket.Conn)
}

func (e *echo) Message(m []byte) {
	e.seen <- "message"
	if e.conn.Write(append([]byte{}, m...)) != nil {
		e.seen <- "unwritable"
	}
}
func (e *echo) TooLong() { e.seen <- "too long" }
func (e *echo) Ping()    { e.seen <- "ping" }
func (e *echo) Pong()    {}

func (e *echo) Quiet() {
	if e.quiet != nil {
		e.quiet(e.conn)
	}
}

// door serves echoes and tells how each ended.
type door struct {
	*httptest.Server
	seen  chan string
	ended chan error
	conns chan *socket.Conn

	// The tests count what they dial: a server does not wait for connections that were taken over.
	serving sync.WaitGroup

	memory *pipes // if not nil
}

func (d *door) connect() (net.Conn, error) {
	if d.memory != nil {
		return d.memory.dial()
	}
	return net.Dial("tcp", d.Listener.Addr().String())
}

func open(t *testing.T, o socket.Options, quiet func(*socket.Conn)) *door {
	t.Helper()
	return openOn(t, nil, o, quiet)
}

// openOn is open with connections in memory, if on is not nil.
func openOn(t *testing.T, on *pipes, o socket.Options, quiet func(*socket.Conn)) *door {
	t.Helper()
	d := &door{seen: make(chan string, 1000), ended: make(chan error, 1000), conns: make(chan *socket.Conn, 1000)}
	d.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := socket.Accept(w, r, o)
		if err != nil {
			return
		}
		d.conns <- conn
		go func() {
			defer d.serving.Done()
			d.ended <- conn.Serve(&echo{conn, d.seen, quiet})
		}()
	}))
	if d.memory = on; on != nil {
		d.Listener.Close()
		d.Listener = on
	}
	d.Start()
	t.Cleanup(func() {
		d.serving.Wait()
		d.Close()
	})
	return d
}

func options() socket.Options {
	return socket.Options{MaxMessage: 1 << 20, MaxDiscard: 4 << 20, PingInterval: time.Minute, WriteTimeout: 10 * time.Second}
}

func (d *door) dial(t *testing.T) *websocket.Conn {
	t.Helper()
	d.serving.Add(1)
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return d.connect() }}
	conn, _, err := websocket.Dial(t.Context(), d.URL, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		d.serving.Done()
		t.Fatal(err)
	}
	conn.SetReadLimit(8 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

// raw is a client that sends whatever bytes it likes.
func (d *door) raw(t *testing.T, with ...byte) (net.Conn, *bufio.Reader) {
	t.Helper()
	d.serving.Add(1)
	conn, err := d.connect()
	if err != nil {
		d.serving.Done()
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n%s", with)
	from := bufio.NewReader(conn)
	answer, err := http.ReadResponse(from, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Fatalf("%v %v", answer, err)
	}
	return conn, from
}

// frame is a client's frame, masked.
func frame(first byte, payload string) []byte {
	out := []byte{first}
	switch n := len(payload); {
	case n < 126:
		out = append(out, 0x80|byte(n))
	case n < 1<<16:
		out = binary.BigEndian.AppendUint16(append(out, 0x80|126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, 0x80|127), uint64(n))
	}
	mask := []byte{1, 2, 3, 4}
	out = append(out, mask...)
	for i := range len(payload) {
		out = append(out, payload[i]^mask[i%4])
	}
	return out
}

func (d *door) expect(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-d.seen:
		if got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("no %s", want)
	}
}

func (d *door) endsWith(t *testing.T, want error) {
	t.Helper()
	select {
	case err := <-d.ended:
		if !errors.Is(err, want) {
			t.Fatalf("ended with %v, want %v", err, want)
		}
	case <-time.After(time.Minute):
		t.Fatal("has not ended")
	}
}

func TestMessagesOfAnyLengthComeThroughBothWays(t *testing.T) {
	t.Parallel()
	d := open(t, options(), nil)
	c := d.dial(t)
	for _, n := range []int{0, 1, 50, 63, 64, 65, 125, 126, 127, 1000, 65535, 65536, 1 << 20} {
		sent := strings.Repeat("x", n)
		must.Do(t, c.Write(t.Context(), websocket.MessageText, []byte(sent)))
		if _, got, err := c.Read(t.Context()); err != nil || string(got) != sent {
			t.Fatalf("%d bytes: %d came back, %v", n, len(got), err)
		}
	}
}

func TestPiecesAndWhatComesBetweenThemArePutTogether(t *testing.T) {
	t.Parallel()
	d := open(t, options(), nil)
	// The first message comes before the handshake is answered.
	conn, from := d.raw(t, frame(0x81, "early")...)
	var stream []byte
	stream = append(stream, frame(0x01, "he")...)
	stream = append(stream, frame(0x89, "ping")...)
	stream = append(stream, frame(0x00, "l")...)
	stream = append(stream, frame(0x8a, "a pong nobody asked for")...)
	stream = append(stream, frame(0x80, "lo")...)
	stream = append(stream, frame(0x82, "binary")...)
	go func() { // in pieces of any size
		for len(stream) > 0 {
			n := min(len(stream), 1+rand.N(7))
			if _, err := conn.Write(stream[:n]); err != nil {
				return
			}
			stream = stream[n:]
		}
	}()
	want := "\x81\x05early\x8a\x04ping\x81\x05hello\x81\x06binary"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(from, got); err != nil || string(got) != want {
		t.Fatalf("%q %v", got, err)
	}
	for _, what := range []string{"message", "ping", "message", "message"} {
		d.expect(t, what)
	}
}

func TestALongMessageIsDroppedAndTheNextOneTakenButOneBeyondAllMeasureCloses(t *testing.T) {
	t.Parallel()
	o := options()
	o.MaxMessage, o.MaxDiscard = 100, 1000
	d := open(t, o, nil)
	conn, from := d.raw(t)
	for _, f := range [][]byte{frame(0x81, strings.Repeat("x", 101)), frame(0x01, strings.Repeat("x", 90)), frame(0x80, strings.Repeat("x", 90)), frame(0x81, "ok")} {
		must.Get(conn.Write(f))(t)
	}
	d.expect(t, "too long")
	d.expect(t, "too long")
	d.expect(t, "message")
	must.Get(conn.Write(frame(0x81, strings.Repeat("x", 1001))))(t)
	rest := make([]byte, len("\x81\x02ok")+4)
	if _, err := io.ReadFull(from, rest); err != nil || rest[4] != 0x88 || binary.BigEndian.Uint16(rest[6:]) != socket.TooLarge {
		t.Fatalf("%x %v", rest, err)
	}
}

func TestAConnectionThatBreaksTheRulesIsClosedWithTheReason(t *testing.T) {
	t.Parallel()
	for name, bytes := range map[string][]byte{
		"not masked":             {0x81, 0x01, 'x'},
		"reserved bits":          frame(0xc1, "x"),
		"reserved op code":       frame(0x83, "x"),
		"long control":           frame(0x89, strings.Repeat("x", 126)),
		"control in pieces":      frame(0x09, "x"),
		"continues nothing":      frame(0x80, "x"),
		"begins before it ended": append(frame(0x01, "x"), frame(0x81, "y")...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t, options(), nil)
			conn, from := d.raw(t)
			must.Get(conn.Write(bytes))(t)
			got := make([]byte, 4)
			if _, err := io.ReadFull(from, got); err != nil || got[0] != 0x88 || binary.BigEndian.Uint16(got[2:]) != socket.ProtocolError {
				t.Fatalf("%x %v", got, err)
			}
		})
	}
}

func TestTheClientsCloseIsConfirmedAndItsReasonReturned(t *testing.T) {
	t.Parallel()
	d := open(t, options(), nil)
	must.Do(t, d.dial(t).Close(4321, "enough"))
	if closed := new(socket.Closed); !errors.As(<-d.ended, &closed) || closed.Status != 4321 || closed.Reason != "enough" {
		t.Errorf("%+v", closed)
	}
	conn, from := d.raw(t)
	must.Get(conn.Write(frame(0x88, "")))(t)
	if got, err := io.ReadAll(from); err != nil || string(got) != "\x88\x00" {
		t.Errorf("%x %v", got, err)
	}
	if closed := new(socket.Closed); !errors.As(<-d.ended, &closed) || closed.Status != socket.NoStatus {
		t.Errorf("%+v", closed)
	}
}

func TestACloseIsSaidOnceAndWaitsForTheClient(t *testing.T) {
	t.Parallel()
	d := open(t, options(), nil)
	c := d.dial(t)
	conn := <-d.conns
	conn.Close(socket.GoingAway, "bye")
	conn.Close(socket.Policy, "again")
	if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Fatal(err)
	}
	if closed := new(socket.Closed); !errors.As(<-d.ended, &closed) || closed.Status != socket.GoingAway {
		t.Errorf("%+v", closed)
	}
	if conn.Write([]byte("x")) == nil {
		t.Error("something can be written after the close")
	}
}

func TestAMessageInPartsMustBeCompleteInTimeWhateverComesBetween(t *testing.T) {
	t.Parallel()
	o := options()
	o.WriteTimeout = 300 * time.Millisecond
	d := open(t, o, nil)
	conn, from := d.raw(t)
	begun := time.Now()
	must.Get(conn.Write(frame(0x01, "the beginning")))(t)
	d.serving.Go(func() { // the client goes on to ping and to send empty parts
		for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
			if _, err := conn.Write(append(frame(0x89, ""), frame(0x00, "")...)); err != nil {
				return
			}
		}
	})
	for head := make([]byte, 2); ; { // what a server sends is short and not masked
		if _, err := io.ReadFull(from, head); err != nil {
			t.Fatalf("before it was closed: %v", err)
		}
		payload := make([]byte, head[1])
		must.Get(io.ReadFull(from, payload))(t)
		if head[0] == 0x88 {
			if code := binary.BigEndian.Uint16(payload); code != 1008 || !strings.Contains(string(payload), "not complete after 300ms") {
				t.Errorf("closed with %d %q", code, payload[2:])
			}
			break
		}
	}
	if took := time.Since(begun); took < o.WriteTimeout || took > 10*time.Second {
		t.Errorf("closed after %s", took)
	}
	_ = conn.Close()
	d.endsWith(t, socket.ErrUnfinished)
}

func TestAClientThatSendsTooOftenIsClosedAndOneAtTheRateIsNot(t *testing.T) {
	t.Parallel()
	o := options()
	o.Rate, o.Burst = 1, 200 // so slow that a busy server, too, reads the 400 before many more are allowed
	for name, one := range map[string][]byte{"pings": frame(0x89, ""), "pongs": frame(0x8a, ""), "messages": frame(0x81, "x"), "parts": frame(0x00, "")} {
		d := open(t, o, nil)
		conn, from := d.raw(t)
		if name == "parts" {
			conn.Write(frame(0x01, "x"))
		}
		if _, err := conn.Write(bytes.Repeat(one, 400)); err != nil {
			t.Fatal(name, err)
		}
		answered := 0
		for head := make([]byte, 2); ; {
			if _, err := io.ReadFull(from, head); err != nil {
				t.Fatalf("%s: before it was closed: %v", name, err)
			}
			payload := make([]byte, head[1])
			if _, err := io.ReadFull(from, payload); err != nil {
				t.Fatal(name, err)
			}
			if head[0] != 0x88 {
				answered++
				continue
			}
			if code := binary.BigEndian.Uint16(payload); code != 1008 || !strings.Contains(string(payload), "more than 1 messages a second") {
				t.Errorf("%s: closed with %d %q", name, code, payload[2:])
			}
			break
		}
		if answered > 250 || (name == "pings" || name == "messages") && answered < 200 {
			t.Errorf("%s: %d were answered of 200 that may come at once", name, answered)
		}
		_ = conn.Close()
		d.endsWith(t, socket.ErrTooOften)
	}
}

func TestAClientThatDoesNotReadEndsTheWriteAndTheConnection(t *testing.T) {
	t.Parallel()
	o := options()
	o.WriteTimeout = 100 * time.Millisecond
	d := open(t, o, nil)
	d.raw(t)
	conn := <-d.conns
	var err error
	for range 10_000 {
		if err = conn.Write(make([]byte, 64<<10)); err != nil {
			break
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("writing to nobody ends with %v", err)
	}
	<-d.ended
}

func TestOnlyPagesOfThisSiteAndNamedOnesMayConnect(t *testing.T) {
	t.Parallel()
	for origin, allowed := range map[string]bool{
		"": true, "https://here.example": true, "https://HERE.example": true, "https://app.friend.example": true,
		"https://evil.example": false, "http://app.friend.example": false, "null": false, "://": false, "https://a.friend.example:8443": false,
		"https://evil.example?.friend.example": false, "https://evil.example#.friend.example": false, "https://u@a.friend.example": false,
		"https://evil.example%2f.friend.example": false, "https://evil.example;a.friend.example": false, "https://evil.example\\.friend.example": false, "https://friend.example": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "http://here.example/", nil)
		r.Header.Set("Origin", origin)
		if origin == "" {
			r.Header.Del("Origin")
		}
		if err := socket.CheckOrigin(r, []string{"https://*.friend.example"}); (err == nil) != allowed {
			t.Errorf("%q: %v", origin, err)
		}
	}
}

func TestARequestThatIsNoHandshakeIsAnsweredSo(t *testing.T) {
	t.Parallel()
	d := open(t, options(), nil)
	answer := must.Get(d.Client().Get(d.URL))(t)
	_ = answer.Body.Close()
	if answer.StatusCode < 400 || answer.StatusCode >= 500 {
		t.Errorf("answered %s", answer.Status)
	}
}

// FuzzServe: no bytes of a client make it panic or hang.
func FuzzServe(f *testing.F) {
	f.Add(frame(0x81, "hello"))
	f.Add(append(frame(0x01, "x"), frame(0x80, "y")...))
	f.Add(frame(0x88, "\x03\xe8bye"))
	f.Add([]byte{0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		ended := make(chan error, 1)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			o := options()
			o.MaxMessage, o.MaxDiscard = 1000, 10_000
			conn, err := socket.Accept(w, r, o)
			if err != nil {
				ended <- err
				return
			}
			go func() { ended <- conn.Serve(&echo{conn, make(chan string, 10_000), nil}) }()
		}))
		defer server.Close()
		d := &door{Server: server}
		conn, from := d.raw(t)
		go func() {
			_, _ = conn.Write(bytes)
			_ = conn.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(io.Discard, from)
		if err := <-ended; err == nil {
			t.Error("it ended without a reason")
		}
	})
}
