package sim

import (
	"container/heap"
	"math/rand/v2"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle/history"
)

// Times are in milliseconds since the start of the simulation.
const (
	second = int64(1000)
	minute = 60 * second
	hour   = 60 * minute

	tickInterval = 250
)

// world is everything that happens around one partition of the log.
type world struct {
	*rand.Rand
	h      *history.History
	faults map[string]int // how often each happened

	now    int64
	events agenda
	made   int // events so far; breaks ties

	gateways []*gateway
	// processes are all that there were.
	processes []*gateway
	devices   []*device
	interval  int64 // between two beats of a device

	// The log.
	appended     int64 // append time of the newest record
	skew         int64 // of the broker's clock
	brokerDown   int64 // until when; nothing can be appended
	tickerDown   int64 // until when; there are no ticks
	restartsNext bool  // the detector is restarted before the next record

	loseNext history.Record // what such a restart does not find any more
}

// Make returns the history of a seed, and how often each fault happened.
func Make(seed uint64, hours float64, users int) (*history.History, map[string]int) {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 0x57111)), faults: map[string]int{}}
	w.h = &history.History{Settings: settings(seed), Partitions: 1 + int32(seed%3)}
	w.h.Partition = int32(w.IntN(int(w.h.Partitions)))
	w.interval = w.h.Settings.HeartbeatInterval.Milliseconds()
	if w.interval < 2*tickInterval {
		w.interval = w.h.Settings.OnlineTTL.Milliseconds() / 2
	}
	for i := range 3 {
		w.open(i)
	}
	w.populate(users)
	w.at(0, w.tick)
	w.at(minute, w.fault)
	for end := int64(hours * float64(hour)); len(w.events) > 0; {
		e := heap.Pop(&w.events).(event)
		if e.at > end {
			break
		}
		w.now = e.at
		e.do()
	}
	return w.h, w.faults
}

// settings are the defaults for every third seed, else what package history draws.
func settings(seed uint64) liveness.Settings {
	if seed%3 == 0 {
		return liveness.Defaults()
	}
	return history.Settings(seed)
}

// append writes a record to the log; false while the broker is down.
func (w *world) append(r history.Record) bool {
	if w.now < w.brokerDown {
		return false
	}
	at := w.now + w.skew
	r.After = at - w.appended
	if w.restartsNext || w.loseNext.Lose != "" {
		for _, g := range w.processes {
			g.told = nothing // the new owner looks
		}
	}
	r.Restart, w.restartsNext = w.restartsNext, false
	r.Lose, r.Keep, w.loseNext = w.loseNext.Lose, w.loseNext.Keep, history.Record{}
	w.appended = at
	w.h.Records = append(w.h.Records, r)
	return true
}

// tick is what the owner of the partition does.
func (w *world) tick() {
	if w.now >= w.tickerDown {
		w.append(history.Record{Tick: true})
		w.leases()
	}
	w.after(tickInterval, w.tick)
}

// chance is true once in n times.
func (w *world) chance(n int) bool { return w.IntN(n) == 0 }

// between is a time from a up to and without b.
func (w *world) between(a, b int64) int64 { return a + w.Int64N(b-a) }

// mine is the id-th user of the partition.
func (w *world) mine(id int) schemas.UserID {
	for u := schemas.UserID(1); ; u++ {
		if schemas.PartitionOf(u, w.h.Partitions) == w.h.Partition {
			if id == 0 {
				return u
			}
			id--
		}
	}
}

// event is something that happens at an instant.
type event struct {
	at    int64
	order int
	do    func()
}

func (w *world) at(at int64, do func()) {
	w.made++
	heap.Push(&w.events, event{at, w.made, do})
}

func (w *world) after(d int64, do func()) { w.at(w.now+max(d, 1), do) }

// agenda is a heap of events, earliest first.
type agenda []event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].order < a[j].order
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	(*a)[len(*a)-1] = event{}
	*a = (*a)[:len(*a)-1]
	return last
}
