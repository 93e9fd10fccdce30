package load

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/schemas"
)

// Settings say how many people there are and how they behave. Start from Defaults.
type Settings struct {
	// Users is how many people there are; their ids begin with First.
	Users int
	First schemas.UserID
	// Text gives users names, of these Tenants in turn; none is the default tenant. Each tenant has
	// users of the same names.
	Text    bool
	Tenants []string
	// Gateways is how many gateways hold their connections.
	Gateways int
	// Interval is how often a device beats; 0: as the server's hello says, and as Defaults until
	// the hello comes.
	Interval time.Duration
	// Pace makes sessions shorter: at 10 a working spell takes half a minute rather
	// than five.
	Pace float64
	// Crashes is how often a gateway crashes, on average; 0: never.
	Crashes time.Duration
	// Seed decides what happens.
	Seed uint64
}

// Defaults are a thousand people on three gateways.
func Defaults() Settings {
	return Settings{Users: 1000, First: 1, Gateways: 3, Interval: 15 * time.Second, Pace: 1, Crashes: 10 * time.Minute, Seed: 1}
}

// Validate reports everything that is wrong, joined.
func (s Settings) Validate() error {
	var all faults.List
	all.If(s.Users < 1 || s.Users > maxUsers, "users: must be between 1 and %d, is %d", maxUsers, s.Users)
	all.If(len(s.Tenants) > 0 && !s.Text, "tenant: only pipelines with --ids text have tenants")
	for _, tenant := range s.Tenants {
		all.Add(schemas.CheckTenant("tenant", tenant))
	}
	all.If(s.First < 1, "first user: must be positive, is %d", s.First)
	all.If(s.Gateways < 1 || s.Gateways > 100, "gateways: must be between 1 and 100, is %d", s.Gateways)
	all.If(s.Interval != 0 && s.Interval < 100*time.Millisecond,
		"interval: must be 0 or at least 100ms, is %s", s.Interval)
	all.If(s.Pace <= 0, "pace: must be positive, is %g", s.Pace)
	all.If(s.Crashes < 0, "crashes: must not be negative, is %s", s.Crashes)
	return all.Err()
}

const (
	maxUsers = 10_000_000
	// maxBeats is how many beats go into one request.
	maxBeats = 1000
	// moment is how often a gateway without beats sends an empty request: it is alive.
	moment = time.Second
	// down is how long a crashed gateway stays away: longer than the detector
	// waits for it.
	down = 15 * time.Second
	// reconnectSpread is over how long its clients spread their reconnects.
	reconnectSpread = 10 * time.Second
)

// mood is what a person is doing.
type mood int

const (
	disconnected mood = iota
	working
	idle
)

// spells are how long people stay in a mood, on average.
var spells = map[mood]time.Duration{disconnected: 6 * time.Minute, working: 5 * time.Minute, idle: 7 * time.Minute}

type person struct {
	devices  int
	gateway  int
	mood     mood
	until    time.Duration // when the mood changes
	beat     time.Duration // when the next beat is due, unless disconnected
	touched  time.Duration // when the person last did something
	fresh    bool          // the next beat is that of a new connection
	farewell bool          // a bye is due
}

type gateway struct {
	epoch   schemas.Millis
	back    time.Duration // down until then
	crashes time.Duration // when it crashes next
	said    time.Duration
}

// World is the people and the gateways. One goroutine at a time may use it.
type World struct {
	settings Settings
	schedule schemas.Schedule
	start    schemas.Millis
	random   *rand.Rand
	people   []person
	gateways []gateway
}

// NewWorld makes a world whose instant 0 is start. At first nobody is connected; about two of
// three people connect within an interval.
func NewWorld(settings Settings, start time.Time) *World {
	if settings.Interval == 0 {
		settings.Interval = Defaults().Interval
	}
	w := &World{settings: settings, schedule: schemas.ScheduleOf(settings.Interval, 0), start: schemas.MillisOf(start), random: rand.New(rand.NewPCG(settings.Seed, 0x5eed))}
	w.gateways = make([]gateway, settings.Gateways)
	for i := range w.gateways {
		w.gateways[i] = gateway{epoch: w.start, crashes: w.nextCrash(0), said: -moment}
	}
	w.people = make([]person, settings.Users)
	for i := range w.people {
		p := &w.people[i]
		p.devices = 1 + w.random.IntN(5)/4
		if p.until = w.within(settings.Interval); w.random.IntN(3) == 0 {
			p.until = w.spell(disconnected)
		}
	}
	return w
}

// Follow makes devices beat by another schedule from their next beat on.
func (w *World) Follow(s schemas.Schedule) { w.schedule = s }

// Beat is a beat or bye of a device, in the JSON of the HTTP endpoint.
type Beat struct {
	User   schemas.UserID `json:"user_id"`
	Device uint32         `json:"device_id"`
	Kind   string         `json:"device_kind"`
	Idle   int64          `json:"idle_ms"`
	Bye    bool           `json:"bye,omitempty"`
}

// Request is what one gateway sends at once.
type Request struct {
	Gateway string `json:"gateway_id"`
	Epoch   int64  `json:"gateway_epoch,string"` // Unix milliseconds
	Beats   []Beat `json:"beats"`
}

// Step advances the time to now, which must not go back, and returns the requests of the
// gateways, those of one gateway in order.
func (w *World) Step(now time.Duration) []Request {
	w.crash(now)
	beats := make([][]Beat, len(w.gateways))
	for i := range w.people {
		p := &w.people[i]
		w.advance(p, now)
		due := p.farewell || p.mood != disconnected && now >= p.beat
		if !due || !w.connect(p, now) {
			continue
		}
		for d := range p.devices {
			beats[p.gateway] = append(beats[p.gateway], Beat{
				User: w.settings.First + schemas.UserID(i), Device: uint32(d + 1), Kind: []string{"mobile", "desktop"}[d],
				Idle: (now - p.touched).Milliseconds(), Bye: p.farewell,
			})
		}
		p.farewell = false
		if p.beat = now + w.schedule.Next(w.random.Float64); p.fresh {
			p.beat = now + w.schedule.First(w.random.Float64)
		}
		p.fresh = false
	}
	var requests []Request
	for i := range w.gateways {
		g := &w.gateways[i]
		if now < g.back {
			continue
		}
		for rest := beats[i]; len(rest) > 0 || now-g.said >= moment; {
			n := min(len(rest), maxBeats)
			requests = append(requests, Request{Gateway: fmt.Sprintf("load-%d", i+1), Epoch: int64(g.epoch), Beats: append([]Beat{}, rest[:n]...)})
			rest, g.said = rest[n:], now
		}
	}
	return requests
}

// Failed lets the people of a request that did not arrive beat again soon.
func (w *World) Failed(r Request, now time.Duration) {
	for _, b := range r.Beats {
		p := &w.people[b.User-w.settings.First]
		p.beat = now + w.within(2*time.Second)
		p.farewell = p.farewell || b.Bye
	}
}

// Count is how many people are in each mood.
func (w *World) Count() (atWork, away, out int) {
	var n [3]int
	for i := range w.people {
		n[w.people[i].mood]++
	}
	return n[working], n[idle], n[disconnected]
}

// advance changes a person's mood when it is time.
func (w *World) advance(p *person, now time.Duration) {
	for now >= p.until {
		at := p.until
		switch was := p.mood; {
		case was == disconnected:
			p.mood, p.beat, p.touched, p.fresh = working, at, at, true
			p.gateway = w.random.IntN(len(w.gateways))
		case was == idle && w.random.IntN(3) > 0:
			// Somebody is back at the keyboard; clients report it at once.
			p.mood, p.beat, p.touched = working, at, at
		case was == working && w.random.IntN(2) > 0:
			p.mood, p.touched = idle, at
		default:
			p.mood = disconnected
			p.farewell = w.random.IntN(5) < 3 // the others close the lid
		}
		p.until = at + w.spell(p.mood)
	}
	if p.mood == working {
		p.touched = max(p.touched, now-w.within(5*time.Second))
	}
}

// connect gives a person whose gateway is down another one, if some is up.
func (w *World) connect(p *person, now time.Duration) bool {
	for range len(w.gateways) {
		if now >= w.gateways[p.gateway].back {
			return true
		}
		p.gateway = (p.gateway + 1) % len(w.gateways)
	}
	return false
}

// crash lets gateways crash. Nine of ten of their people come back soon.
func (w *World) crash(now time.Duration) {
	for i := range w.gateways {
		g := &w.gateways[i]
		if now < g.crashes {
			continue
		}
		g.back = now + down
		g.epoch = w.start + schemas.Millis(g.back.Milliseconds())
		g.crashes = w.nextCrash(g.back)
		for j := range w.people {
			p := &w.people[j]
			switch {
			case p.mood == disconnected || p.gateway != i:
			case w.random.IntN(10) == 0:
				p.mood, p.until = disconnected, now+w.spell(disconnected)
			default:
				p.beat, p.fresh = now+w.within(reconnectSpread), true
			}
		}
	}
}

func (w *World) nextCrash(after time.Duration) time.Duration {
	if w.settings.Crashes == 0 {
		return 1 << 62
	}
	return after + time.Duration(w.random.ExpFloat64()*float64(w.settings.Crashes)*float64(len(w.gateways)))
}

// spell is how long somebody stays in a mood.
func (w *World) spell(m mood) time.Duration {
	mean := float64(spells[m]) / w.settings.Pace
	return time.Millisecond + time.Duration(w.random.ExpFloat64()*mean)
}

// within is an instant in a span of time.
func (w *World) within(span time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(max(span, 1))))
}
