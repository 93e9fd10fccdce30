//go:build linux

package live_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/live"
	"github.com/stillhere/stillhere/fanout/redisbus"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
)

// bareClient is a socket that the Go runtime knows nothing of, so that a process
// can measure what the server's end costs.
type bareClient int

// bareDial opens a connection and sends a request.
func bareDial(address *net.TCPAddr, request string) (bareClient, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	to := &syscall.SockaddrInet4{Port: address.Port}
	copy(to.Addr[:], address.IP.To4())
	if err := syscall.Connect(fd, to); err != nil {
		return 0, err
	}
	_, err = syscall.Write(fd, []byte(request))
	return bareClient(fd), err
}

// connect opens a WebSocket and subscribes, and returns when the snapshot is there.
func connect(address *net.TCPAddr, subscribe []byte) (bareClient, error) {
	c, err := bareDial(address, "GET /presence/stream HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	if err != nil {
		return 0, err
	}
	if err := c.await("max_subscriptions"); err != nil {
		return 0, err
	}
	frame := append([]byte{0x81, 0x80 | 126, byte(len(subscribe) >> 8), byte(len(subscribe)), 0, 0, 0, 0}, subscribe...)
	if _, err := syscall.Write(int(c), frame); err != nil {
		return 0, err
	}
	return c, c.await("]}")
}

// listen asks for Server-Sent Events, and returns when the snapshot is there.
func listen(address *net.TCPAddr, users string) (bareClient, error) {
	c, err := bareDial(address, "GET /presence/stream?user_ids="+users+" HTTP/1.1\r\nHost: x\r\n\r\n")
	if err != nil {
		return 0, err
	}
	return c, c.await("]}")
}

// await reads until text has come.
func (c bareClient) await(text string) error {
	var heard []byte
	buffer := make([]byte, 64<<10)
	for !bytes.Contains(heard, []byte(text)) {
		n, err := syscall.Read(int(c), buffer)
		if err != nil || n == 0 {
			return fmt.Errorf("after %q: %d bytes, %w", heard, n, err)
		}
		heard = append(heard, buffer[:n]...)
	}
	return nil
}

// resident is how much memory the process has, in bytes.
func resident(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip(err)
	}
	var size, pages float64
	must.Get(fmt.Sscan(string(text), &size, &pages))(b)
	return pages * float64(os.Getpagesize())
}

// What one idle WebSocket costs the server, everything counted that the process
// holds: heap and stacks in use by the runtime's own figures, and resident memory
// by the kernel's. What the kernel itself keeps for a socket is not in it.
func BenchmarkIdleWebSocket(b *testing.B) {
	eachIdle(b, func(address *net.TCPAddr, users []string) (bareClient, error) {
		return connect(address, []byte(`{"type":"subscribe","user_ids":["`+strings.Join(users, `","`)+`"]}`))
	})
}

// The same for one stream of Server-Sent Events over HTTP/1.1.
func BenchmarkIdleEvents(b *testing.B) {
	eachIdle(b, func(address *net.TCPAddr, users []string) (bareClient, error) {
		return listen(address, strings.Join(users, ","))
	})
}

type opener func(address *net.TCPAddr, users []string) (bareClient, error)

func eachIdle(b *testing.B, open opener) {
	for _, watched := range []int{1, 10, 50} {
		b.Run(fmt.Sprintf("watching=%d", watched), func(b *testing.B) {
			for b.Loop() {
				measureIdle(b, 9_000, watched, open)
			}
		})
	}
}

func measureIdle(b *testing.B, n, watched int, opens opener) {
	cfg := fanout.DefaultConfig()
	metrics := fanout.NewMetrics(nil)
	r := redistest.Mini(b)
	bus := must.Get(redisbus.Open(redisbus.Options{Addr: r.Addr, Dialer: r.Dial}, cfg, metrics, nil))(b)
	defer bus.Close()
	v := newView()
	server, err := live.New(cfg, live.Dependencies{Bus: bus, Recent: bus.Recent, View: v.Read, Metrics: metrics})
	must.Do(b, err)
	stop := run(b, server)
	defer stop()
	front := httptest.NewServer(server)
	defer front.Close()

	ids := make([]string, watched)
	for i := range ids {
		ids[i] = fmt.Sprint(i + 1)
	}
	var clients []bareClient
	defer func() {
		for _, c := range clients {
			_ = syscall.Close(int(c))
		}
	}()
	open := func(n int) {
		for range n {
			c := must.Get(opens(front.Listener.Addr().(*net.TCPAddr), ids))(b)
			clients = append(clients, c)
		}
	}
	settle := func() (m runtime.MemStats) {
		runtime.GC()
		debug.FreeOSMemory()
		runtime.ReadMemStats(&m)
		return m
	}
	// One goroutine waits for each client; those of net/http end.
	const others = 100
	idle, opened := runtime.NumGoroutine(), 0
	ended := func() bool { return runtime.NumGoroutine() <= idle+opened+others }
	opened = 500
	open(opened) // what is made once
	eventually(b, "the goroutines of the first connections' HTTP server have ended", ended)
	before, held := settle(), resident(b)
	open(n)
	opened += n
	eventually(b, "the goroutines of the HTTP server have ended", ended)
	after := settle()
	per := func(now, then uint64) float64 { return (float64(now) - float64(then)) / float64(n) }
	b.ReportMetric(per(after.HeapAlloc, before.HeapAlloc), "heap-B/conn")
	b.ReportMetric(per(after.StackInuse, before.StackInuse), "stack-B/conn")
	b.ReportMetric((resident(b)-held)/float64(n), "resident-B/conn")
	b.ReportMetric(0, "ns/op")
}
