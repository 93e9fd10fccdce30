package socket_test

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stillhere/stillhere/internal/socket"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

// counter is told when so many messages have come.
type counter struct {
	left int
	done chan struct{}
}

func (c *counter) Message([]byte) {
	if c.left--; c.left == 0 {
		close(c.done)
	}
}
func (*counter) TooLong() {}
func (*counter) Ping()    {}
func (*counter) Pong()    {}
func (*counter) Quiet()   {}

// Small messages one after another over TCP: what serving costs, beside the kernel.
func BenchmarkMessage(b *testing.B) {
	c := &counter{left: b.N, done: make(chan struct{})}
	ended := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := socket.Accept(w, r, options())
		if err != nil {
			b.Error(err)
			return
		}
		go func() { ended <- conn.Serve(c) }()
	}))
	defer server.Close()
	conn := must.Get(new(net.Dialer).DialContext(b.Context(), "tcp", server.Listener.Addr().String()))(b)
	must.Get(conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")))(b)
	must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(b)
	frame := append([]byte{0x81, 0x80 | 40, 0, 0, 0, 0}, bytes.Repeat([]byte("x"), 40)...)
	const batch = 100
	frames := bytes.Repeat(frame, batch)
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= batch {
		must.Get(conn.Write(frames[:min(left, batch)*len(frame)]))(b)
	}
	<-c.done
	b.StopTimer()
	_ = conn.Close()
	<-ended
}
