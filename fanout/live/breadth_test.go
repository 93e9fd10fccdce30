//go:build linux

package live_test

import (
	"bytes"
	"context"
	"net"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/live"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// oneUserBus brings changes of whoever is watched straight from a benchmark.
type oneUserBus struct {
	mu sync.Mutex
	to fanout.Receiver
}

func (*oneUserBus) Subscribe(context.Context, []schemas.UserID) error { return nil }
func (*oneUserBus) Unsubscribe([]schemas.UserID)                      {}
func (b *oneUserBus) Run(ctx context.Context, r fanout.Receiver) error {
	b.mu.Lock()
	b.to = r
	b.mu.Unlock()
	<-ctx.Done()
	return nil
}

// One change of one user to many sockets over TCP, until the kernel has all frames.
// The watchers' end, which is in it, is one thread that reads them in turn.
func BenchmarkOneChangeToManySockets(b *testing.B) {
	const n = 9_000
	bus := &oneUserBus{}
	metrics := fanout.NewMetrics(nil)
	v := newView()
	none := func(context.Context, []schemas.UserID) ([]fanout.Change, error) { return nil, nil }
	server, err := live.New(fanout.DefaultConfig(), live.Dependencies{Bus: bus, Recent: none, View: v.Read, Metrics: metrics})
	must.Do(b, err)
	defer run(b, server)()
	front := httptest.NewServer(server)
	defer front.Close()
	clients := make([]bareClient, n)
	for i := range clients {
		if clients[i], err = connect(front.Listener.Addr().(*net.TCPAddr), []byte(`{"type":"subscribe","user_ids":["1"]}`)); err != nil {
			b.Fatal(err)
		}
		defer syscall.Close(int(clients[i]))
	}
	someone := &person{id: 1}
	buffer := make([]byte, 4096)
	for b.Loop() {
		bus.to.Change(fanout.Change{Transition: someone.flips(1)[0]})
		for _, c := range clients {
			k, err := syscall.Read(int(c), buffer)
			if err != nil || !bytes.Contains(buffer[:k], []byte(`"change"`)) {
				b.Fatal(k, err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/socket")
}
