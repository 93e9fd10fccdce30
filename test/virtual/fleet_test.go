package virtual

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/schemas"
)

// fleet is every role in processes of its own, which crash, freeze and are brought
// back by a supervisor.
type fleet struct {
	w       *world
	members []*member
	bases   []string       // of ingest
	stopped schemas.Millis // when the steadfast stopped beating
	work    sync.WaitGroup

	mu     sync.Mutex // protects counts
	counts map[string]int
}

// member is one place in the fleet: a name under which one process after the
// other runs. Its supervisor owns what is not marked.
type member struct {
	fleet      *fleet
	role, name string
	orders     chan order
	busy       sync.Mutex // held by the fault that has to do with it

	mu   sync.Mutex // protects wire and p
	wire *wire
	p    *process
}

// order is what a supervisor has to do with its process. done is closed when
// the next one has begun, or, at the end, when there is none any more.
type order struct {
	kill bool
	down time.Duration
	end  bool
	done chan struct{}
}

// newFleet starts two detectors, two ingests and one of everything else, and waits
// until all are ready.
func newFleet(w *world) *fleet {
	f := &fleet{w: w, counts: map[string]int{}}
	// The one that keeps the store is first: it makes the file.
	for _, place := range [][2]string{{"lastseen", "lastseen"}, {"detector", "detector-a"}, {"detector", "detector-b"}, {"fanout", "fanout"},
		{"ingest", "ingest-a"}, {"ingest", "ingest-b"}, {"api", "api"}} {
		m := &member{fleet: f, role: place[0], name: place[1], orders: make(chan order)}
		m.up()
		if m.role == "ingest" {
			f.bases = append(f.bases, m.p.base)
		}
		if m.role == "lastseen" {
			m.p.awaitReady()
		}
		f.members = append(f.members, m)
	}
	for _, m := range f.members {
		m.p.awaitReady()
		f.work.Go(m.supervise)
	}
	return f
}

// up starts a process in this place.
func (m *member) up() {
	wire := newWire()
	p := m.fleet.w.begin(m.role, m.name, func(c *app.Config) {
		c.Kafka.Dialer, c.Redis.Dialer = wire.dial(c.Kafka.Dialer), wire.dial(c.Redis.Dialer)
		c.Listener = wire.listen(c.Listener)
	})
	p.over = true // the fleet ends it, not the world
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wire, m.p = wire, p
}

func (m *member) supervise() {
	for {
		select {
		case err := <-m.p.ended:
			m.fleet.w.log.Info("a process ended by itself", "name", m.name, "error", err)
			m.fleet.count(m.role+" ended by itself", 1)
			m.wire.sever()
			time.Sleep(time.Second)
			m.up()
		case o := <-m.orders:
			m.follow(o)
			close(o.done)
			if o.end {
				return
			}
		}
	}
}

func (m *member) follow(o order) {
	p, wire := m.p, m.wire
	if o.kill {
		wire.sever()
		p.cancel()
		m.fleet.work.Go(func() { <-p.ended }) // it is dead, but its goroutines have to find out
	} else {
		p.cancel()
		err := <-p.ended
		if o.end && err != nil {
			m.fleet.w.Errorf("%s did not stop cleanly: %v", m.name, err)
		}
		wire.sever()
	}
	if !o.end {
		time.Sleep(o.down)
		m.up()
	}
}

func (m *member) give(o order) {
	o.done = make(chan struct{})
	m.orders <- o
	<-o.done
}

// now gives the process that is in this place.
func (m *member) now() (*process, *wire) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.p, m.wire
}

// pick is some member with that role, "" for any.
func (f *fleet) pick(random *rand.Rand, role string) *member {
	for {
		if m := f.members[random.IntN(len(f.members))]; role == "" || m.role == role {
			return m
		}
	}
}

func (f *fleet) count(what string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[what] += n
}

// end stops everything, the way in first.
func (f *fleet) end() {
	for _, role := range []string{"ingest", "api", "detector", "fanout", "lastseen"} {
		for _, m := range f.members {
			if m.role == role {
				m.give(order{end: true})
			}
		}
	}
	f.work.Wait()
}

// allReady is the first thing that is not ready, "" if everything is.
func (f *fleet) allReady() string {
	for _, m := range f.members {
		p, _ := m.now()
		if status, why := f.w.try(http.MethodGet, p.admin+"/readyz", nil); status != http.StatusOK {
			return m.name + ": " + string(why)
		}
	}
	return ""
}

// post sends beats through some endpoint, as a gateway behind a load balancer does, and
// reports whether they were taken. What is not taken by one endpoint is offered to the
// other.
func (f *fleet) post(g gateway, rows ...row) bool {
	first := int(now()/second) % len(f.bases)
	for i := range f.bases {
		body := map[string]any{"beats": append([]row{}, rows...)}
		if g.ID != "" {
			body["gateway_id"], body["gateway_epoch"] = g.ID, int64(g.Epoch)
		}
		if status, _ := f.w.try(http.MethodPost, f.bases[(first+i)%len(f.bases)]+"/presence/heartbeats", body); status == http.StatusAccepted {
			return true
		}
	}
	f.count("posts refused", 1)
	return false
}

// keepBeating lets a user beat every few seconds, come what may, from an instant on
// until it is over.
func (f *fleet) keepBeating(user schemas.UserID, from schemas.Millis, over <-chan struct{}, every schemas.Millis) {
	for next := from; sleepUnless(over, next); next = max(now(), next+every) {
		for !f.post(gateway{}, row{User: user, Device: 1, Kind: "mobile"}) {
			if !sleepUnless(over, now()+second) {
				return
			}
		}
	}
}
