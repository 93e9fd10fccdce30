package live_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/schemas"
)

// rawViewer is a connection that speaks just enough of the protocol, and costs the
// test little.
type rawViewer struct {
	net.Conn
}

// join opens a WebSocket that watches users from first on.
func (g *rig) join(first, n int) (rawViewer, error) {
	conn, err := net.Dial("tcp", g.http.Listener.Addr().String())
	if err != nil {
		return rawViewer{}, err
	}
	var list bytes.Buffer
	for i := range n {
		fmt.Fprintf(&list, `,"%d"`, first+i)
	}
	subscribe := `{"type":"subscribe","user_ids":[` + list.String()[1:] + `]}`
	frame := append([]byte{0x81, 0x80 | 126, byte(len(subscribe) >> 8), byte(len(subscribe)), 0, 0, 0, 0}, subscribe...)
	_, err = fmt.Fprintf(conn, "GET /presence/stream HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n%s", frame)
	return rawViewer{conn}, err
}

// until reads until text has come.
func (v rawViewer) until(text string) error {
	var heard []byte
	buffer := make([]byte, 16<<10)
	if err := v.SetReadDeadline(time.Now().Add(waitLimit)); err != nil {
		return err
	}
	for !bytes.Contains(heard, []byte(text)) {
		n, err := v.Read(buffer)
		if err != nil {
			return fmt.Errorf("waiting for %q after %q: %w", text, heard, err)
		}
		heard = append(heard[max(0, len(heard)-len(text)):], buffer[:n]...)
	}
	return nil
}

// heapAndStacks is what the process holds after a collection, in bytes.
func heapAndStacks() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first has put into pools
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// TestConnectionsThatComeGoAndFlapLeaveNothingBehind: 5,000 connections for ten
// minutes with STILLHERE_LONG=1 (or for
// as long as that says, such as 2m), 300 for a second without.
func TestConnectionsThatComeGoAndFlapLeaveNothingBehind(t *testing.T) {
	connections, lasts := 300, time.Second
	if os.Getenv("STILLHERE_LONG") != "" {
		connections, lasts = 5000, 10*time.Minute
		if d, err := time.ParseDuration(os.Getenv("STILLHERE_LONG")); err == nil {
			lasts = d
		}
	}
	const users = 200
	g := newRig(t, redistest.Mini(t))
	before := heapAndStacks()
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	// The kernel's queue of connections that nobody has accepted yet is shorter (4,096
	// by default, net.core.somaxconn). One beyond it is connected as far as the client
	// can see, and is heard of again when TCP tries again, after 1, 2, 4 ... seconds.
	joining := make(chan struct{}, 1000)
	var lives sync.WaitGroup
	var sessions, faults atomic.Int64
	var fault atomic.Pointer[error]
	lives.Go(func() { // people come and go as well
		people := make([]*person, users)
		for i := range people {
			people[i] = &person{id: schemas.UserID(i + 1)}
		}
		every := time.NewTicker(10 * time.Millisecond)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
				who := people[rand.IntN(users)]
				g.happen(who.flips(1)[0])
			}
		}
	})
	for range connections {
		lives.Go(func() {
			for ctx.Err() == nil {
				joining <- struct{}{}
				v, err := g.join(1+rand.IntN(users-10), 1+rand.IntN(10))
				if err == nil {
					err = v.until(`"snapshot"`)
				}
				<-joining
				if err != nil {
					faults.Add(1)
					fault.CompareAndSwap(nil, &err)
				} else if rand.IntN(3) > 0 { // the others flap
					stay, stop := context.WithTimeout(ctx, rand.N(lasts/10))
					hangUp := context.AfterFunc(stay, func() { v.Close() })
					for {
						if _, err := v.Read(make([]byte, 4096)); err != nil {
							break
						}
					}
					hangUp()
					stop()
				}
				if v.Conn != nil {
					v.Close()
				}
				sessions.Add(1)
			}
		})
	}
	samples := []float64{}
	for every := time.NewTicker(max(lasts/20, 100*time.Millisecond)); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-every.C:
			samples = append(samples, heapAndStacks()/1e6)
		}
	}
	lives.Wait()
	g.gone()
	eventually(t, "no goroutine of a viewer is left", func() bool { return viewersGoroutines() == 0 })
	after := heapAndStacks()
	// What stays is of the test's HTTP server, the Redis stand-in and the pools.
	if after > before+20e6 {
		t.Errorf("%.1f MB before, %.1f MB after", before/1e6, after/1e6)
	}
	if n := len(samples); n >= 12 { // flat: the last quarter is as the second
		early, late := mean(samples[n/4:n/2]), mean(samples[3*n/4:])
		t.Logf("memory in MB over time: %.1f", samples)
		if lasts > time.Minute && late > 1.25*early+5 {
			t.Errorf("memory has grown from %.1f MB to %.1f MB", early, late)
		}
	}
	if n := faults.Load(); n > 0 {
		t.Errorf("%d of %d sessions had no snapshot in time, such as: %v", n, sessions.Load(), *fault.Load())
	}
	t.Logf("%d connections, %d sessions; %.1f MB before, %.1f MB after", connections, sessions.Load(), before/1e6, after/1e6)
}

// viewersGoroutines is how many goroutines serve viewers.
func viewersGoroutines() int {
	stacks := make([]byte, 64<<20)
	text := stacks[:runtime.Stack(stacks, true)]
	return bytes.Count(text, []byte("socket.(*Conn).Serve(")) + bytes.Count(text, []byte("live.(*viewer).work("))
}

// eventually waits for something to become true.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	every := time.NewTicker(5 * time.Millisecond)
	defer every.Stop()
	for deadline := time.After(waitLimit); !holds(); {
		select {
		case <-every.C:
		case <-deadline:
			t.Fatalf("still not: %s", what)
		}
	}
}

func mean(of []float64) (m float64) {
	for _, v := range of {
		m += v / float64(len(of))
	}
	return m
}

// heldUp is by how much the slowest change may be later beside viewers who do not read.
const heldUp = time.Second

// TestStuckViewersCostLittleAndHoldUpNobody is G15: a thousand who do not read.
func TestStuckViewersCostLittleAndHoldUpNobody(t *testing.T) {
	stuck, rounds, most := 40, 30, 128.0
	if os.Getenv("STILLHERE_LONG") != "" {
		stuck, rounds, most = 1000, 300, 64 // few share what all of them wait for
	}
	const users = 50
	g := newRig(t, redistest.Mini(t), func(c *fanout.Config) { c.WriteTimeout = time.Minute })
	people := make([]*person, users)
	for i := range people {
		people[i] = &person{id: schemas.UserID(i + 1)}
	}
	healthy := g.dial()
	healthy.watch(1)
	delay := func() time.Duration { // of a change, until the healthy one has it
		begun := time.Now()
		g.happen(people[0].flips(1)[0])
		healthy.news()
		return time.Since(begun)
	}
	var idle, beside []time.Duration
	for range rounds {
		idle = append(idle, delay())
	}
	before := heapAndStacks()
	var conns []rawViewer
	defer func() {
		for _, v := range conns {
			v.Close()
		}
	}()
	for range stuck {
		v := must.Get(g.join(1, users))(t)
		// So little room in the kernel that the server's queue fills.
		must.Do(t, v.Conn.(*net.TCPConn).SetReadBuffer(4<<10))
		conns = append(conns, v)
	}
	eventually(t, "all are subscribed", func() bool { return valueOf(g.metrics.Subscriptions) == float64(1+stuck*users) })
	// Each viewer is behind by many times its queue.
	for valueOf(g.metrics.Collapsed) < float64(stuck*990) {
		batch := make([]*schemas.Transition, 0, 20*(users-1))
		for _, p := range people[1:] {
			batch = append(batch, p.flips(20)...)
		}
		g.happen(batch...)
	}
	delay() // not measured: it waits for all changes that the loop above published
	for range rounds {
		beside = append(beside, delay())
	}
	each := (heapAndStacks() - before) / float64(stuck)
	slices.Sort(idle)
	slices.Sort(beside)
	median, alone := beside[rounds/2], idle[rounds/2]
	slowest, slowestAlone := p99(beside), p99(idle)
	t.Logf("%d stuck viewers of %d users, %.0f changes left out: %.1f kB each; a healthy viewer's median %s and p99 %s, %s and %s without them",
		stuck, users, valueOf(g.metrics.Collapsed), each/1000, median, slowest, alone, slowestAlone)
	// Room for a machine that others use as well; one write that waits for a stuck viewer
	// would take a minute, and one that is tried for each of them shows in the median.
	if median > 5*alone+heldUp/20 || slowest > 5*slowestAlone+heldUp {
		t.Errorf("a healthy viewer waits for stuck ones: median %s, p99 %s; without them %s, %s", median, slowest, alone, slowestAlone)
	}
	if each > most*1024 {
		t.Errorf("a stuck viewer costs %.0f bytes, at most %.0f KiB are allowed", each, most)
	}
}

func p99(of []time.Duration) time.Duration {
	var largest time.Duration
	skip := len(of) / 100
	for range skip + 1 {
		largest = 0
		at := 0
		for i, d := range of {
			if d > largest {
				largest, at = d, i
			}
		}
		of[at] = 0
	}
	return largest
}
