//go:build synctests

package looptest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/kafka/processor"
)

// wire is a member's network: it can be cut for ever, as by kill -9, or frozen
// and thawed, as by SIGSTOP.
type wire struct {
	dial func(ctx context.Context, network, host string) (net.Conn, error)

	mu    sync.Mutex
	open  chan struct{} // closed while the wire works
	dead  bool
	conns []net.Conn
}

func newWire(dial func(ctx context.Context, network, host string) (net.Conn, error)) *wire {
	w := &wire{dial: dial, open: make(chan struct{})}
	close(w.open)
	return w
}

func (w *wire) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = make(chan struct{})
}

func (w *wire) thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.open)
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
	for _, c := range w.conns {
		c.Close()
	}
}

func (w *wire) wait() {
	w.mu.Lock()
	open := w.open
	w.mu.Unlock()
	<-open
}

func (w *wire) connect(ctx context.Context, network, host string) (net.Conn, error) {
	w.wait()
	conn, err := w.dial(ctx, network, host)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		conn.Close()
		return nil, errors.New("the wire is cut")
	}
	w.conns = append(w.conns, conn)
	return wiredConn{conn, w}, nil
}

type wiredConn struct {
	net.Conn
	wire *wire
}

func (c wiredConn) Read(b []byte) (int, error) {
	c.wire.wait()
	n, err := c.Conn.Read(b)
	c.wire.wait()
	return n, err
}

func (c wiredConn) Write(b []byte) (int, error) { c.wire.wait(); return c.Conn.Write(b) }

// STILLHERE_TEST_SEEDS=from-to runs more than the usual seeds.
func seeds() (from, to uint64) {
	from, to = 1, 4
	fmt.Sscanf(os.Getenv("STILLHERE_TEST_SEEDS"), "%d-%d", &from, &to)
	return from, to
}

func TestMembersThatDieAndFreezeAtRandomChangeNothing(t *testing.T) {
	from, to := seeds()
	for seed := from; seed <= to; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			inWorld(t, 4, func(w *world) { chaos(w, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func chaos(w *world, random *rand.Rand) {
	names := []string{"a", "b", "c"}
	wires := map[string]*wire{}
	stops := map[string]func(){}
	var left sync.WaitGroup
	up := func(name string) {
		wires[name] = newWire(w.cfg.Dialer)
		cfg := w.cfg
		cfg.InstanceName, cfg.Dialer = name, wires[name].connect
		transform := w.transform(cfg, func(c *copier) processor.Task { return c })
		ctx, cancel := context.WithCancel(context.Background())
		left.Go(func() {
			// What is cut off cannot commit at its end, and says so.
			_ = transform.Run(ctx)
		})
		stops[name] = cancel
	}
	end := func() {
		for _, name := range names {
			stops[name]()
		}
		left.Wait()
	}
	for _, name := range names {
		up(name)
	}
	w.ends = append(w.ends, end)
	sent := map[string]int{}
	quit := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-quit:
				return
			case <-time.After(50 * time.Millisecond):
			}
			key := fmt.Sprint("user", i%7)
			sent[key]++
			w.beat(int32(i%7%4), key)
		}
	})
	for range 12 {
		time.Sleep(time.Duration(random.IntN(8000)) * time.Millisecond)
		name := names[random.IntN(len(names))]
		switch random.IntN(3) {
		case 0: // kill -9, and up again a while later
			w.log.Info("kill", "who", name)
			wires[name].cut()
			stops[name]()
			time.Sleep(time.Duration(random.IntN(10_000)) * time.Millisecond)
			up(name)
		case 1: // SIGSTOP, SIGCONT
			w.log.Info("freeze", "who", name)
			wires[name].freeze()
			time.Sleep(time.Duration(random.IntN(25_000)) * time.Millisecond)
			w.log.Info("thaw", "who", name)
			wires[name].thaw()
		case 2: // a planned restart
			w.log.Info("restart", "who", name)
			stops[name]()
			up(name)
		}
	}
	close(quit)
	sending.Wait()
	w.until("all copied", 3*time.Minute, func() bool {
		counts := w.counts()
		for key, n := range sent {
			if counts[key] != n {
				return false
			}
		}
		return true
	})
	end()
	w.counts()
}
