package virtual

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

func TestScenario19OfAGatewayThatCrashesOnlyThoseWhoDoNotReconnectAreLost(t *testing.T) {
	long(t)
	inWorld(t, size{partitions: 2}, func(w *world) {
		p := w.start("all", "one")
		from := now()
		everyone := make([]row, 2000)
		for i := range everyone {
			everyone[i] = row{User: schemas.UserID(i + 1), Device: 1, Kind: "mobile"}
		}
		last := from + 45*second // of the gateway that crashes
		for at := from; at <= last; at += 15 * second {
			w.sleepTo(at)
			w.mustPost(p.base, gateway{"dies", began}, everyone...)
		}
		for at := last + 25*second; at <= last+6*minute; at += 15 * second {
			w.sleepTo(at)
			w.mustPost(p.base, gateway{"lives", began}, everyone[100:]...)
		}
		w.tap.catchUp()
		users := byUser(w.tap.committed())
		w.onlyOnline(users, 101, 2000)
		for user := schemas.UserID(1); user <= 100; user++ {
			w.only(users, user, schemas.Online, schemas.Away, schemas.Offline)
			away := users[user][1]
			// 2,000 a second and partition: all within 50 ms.
			if late := away.At - (last + 75*second); away.Cause != schemas.GatewayLost || late < 0 || late > 50 {
				w.Errorf("lost by %s", line(&away))
			}
		}
		w.readsAre(p.base, map[schemas.UserID][]schemas.Transition{1: users[1], 101: users[101]})
		p.stop()
		w.rowsAre(users)
	})
}

func TestScenario22ARollingRestartOfIngestPublishesNothing(t *testing.T) {
	long(t)
	inWorld(t, size{partitions: 2}, func(w *world) {
		all := w.startAll()
		names := []string{"ingest", "ingest-2", "ingest-3"}
		balancer := newBalancer()
		balancer.open(all["ingest"])
		for _, name := range names[1:] {
			balancer.open(w.start("ingest", name))
		}
		ctx, everyone := make(chan struct{}), sync.WaitGroup{}
		for user := schemas.UserID(1); user <= 30; user++ {
			everyone.Go(func() { balancer.stay(w, user, ctx) })
		}
		time.Sleep(2 * time.Minute)
		for _, name := range names {
			balancer.shut(name).stop()
			time.Sleep(20 * time.Second)
			balancer.open(w.start("ingest", name))
			time.Sleep(time.Minute)
		}
		time.Sleep(2 * time.Minute)
		users := byUser(w.likeTheOracle())
		w.onlyOnline(users, 1, 30)
		w.readsAre(all["api"].base, users)
		close(ctx)
		everyone.Wait()
	})
}

// The owner cannot hear gateways for longer than gateway_silence and less than the reconnect window: it ends their
// leases, and begins them again. Nothing is told again meanwhile.
func TestConnectionsStayWhoseGatewaysTheOwnerDoesNotHearForAWhile(t *testing.T) {
	long(t)
	inWorld(t, size{partitions: 2}, func(w *world) {
		p := w.startAll()["ingest"] // in one process, frames that are refused hold up the ticks
		for user := schemas.UserID(1); user <= 20; user++ {
			defer w.connect(p.base, user, 1, "mobile").lose()
		}
		time.Sleep(time.Minute)
		for range 2 {
			cut := (&crowds{w: w}).cutOff(false)
			time.Sleep(15 * time.Second)
			cut.Remove()
			time.Sleep(2 * time.Minute)
		}
		w.metricIs("20", "stillhere_ingest_beats_written_total", p)
		users := byUser(w.likeTheOracle())
		w.onlyOnline(users, 1, 20)
	})
}

// balancer knows the processes of ingest that take sockets now.
type balancer struct {
	mu     sync.Mutex
	byName map[string]*process
}

func newBalancer() *balancer { return &balancer{byName: map[string]*process{}} }

func (b *balancer) open(p *process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.byName[p.name] = p
}

func (b *balancer) shut(name string) *process {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.byName[name]
	delete(b.byName, name)
	return p
}

func (b *balancer) any() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var urls []string
	for _, p := range b.byName {
		urls = append(urls, p.base)
	}
	return urls[rand.IntN(len(urls))]
}

// stay keeps a user connected, somewhere, until over.
func (b *balancer) stay(w *world, user schemas.UserID, over <-chan struct{}) {
	time.Sleep(time.Duration(rand.N(10_000)) * time.Millisecond)
	for {
		s := w.connect(b.any(), user, 1, "mobile")
		beat := time.NewTicker(15 * time.Second)
		for open := true; open; {
			select {
			case <-over:
				beat.Stop()
				s.lose()
				return
			case <-beat.C:
				s.ping()
			case <-s.closed:
				open = false
			}
		}
		beat.Stop()
		s.lose()
		time.Sleep(s.reconnectAfter())
	}
}

// reconnectAfter is after how long the server asked to connect again.
func (s *socket) reconnectAfter() time.Duration {
	messages := s.messages()
	var m struct {
		Type  string `json:"type"`
		After int64  `json:"after_ms"`
	}
	if err := json.Unmarshal([]byte(messages[len(messages)-1]), &m); err != nil || m.Type != "reconnect" {
		s.w.Error(fmt.Sprint("the last word of a server that stops is ", messages))
	}
	return time.Duration(m.After) * time.Millisecond
}
