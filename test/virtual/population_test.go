package virtual

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// population is people with several devices each behind gateways that send over HTTP,
// crash and come back. What must come of it only the oracle can tell.
type population struct {
	w        *world
	post     func(g gateway, rows ...row)
	pace     func(at schemas.Millis) // sleeps until an instant
	random   *rand.Rand
	gateways []*populationGateway
	devices  []*populationDevice
	lives    schemas.Millis // how long a gateway lives at most, and five minutes more
}

type populationGateway struct {
	gateway
	alive  bool
	change schemas.Millis // when it crashes or comes back
	phase  schemas.Millis // of its sending
}

type populationDevice struct {
	row
	at      *populationGateway // nil: not connected
	moves   schemas.Millis     // when it connects, or goes
	touched schemas.Millis
}

var kinds = []string{"mobile", "desktop", "web", "bot", "other"}

func newPopulation(w *world, base string, random *rand.Rand, gateways int, users []schemas.UserID) *population {
	c := &population{w: w, post: func(g gateway, rows ...row) { w.mustPost(base, g, rows...) }, random: random, lives: 30 * minute, pace: w.sleepTo}
	for i := range gateways {
		c.gateways = append(c.gateways, &populationGateway{gateway: gateway{ID: fmt.Sprint("gw-", i)}, phase: schemas.Millis(i) * second})
	}
	for _, user := range users {
		for device := range 1 + random.IntN(3) {
			c.devices = append(c.devices, &populationDevice{row: row{User: user, Device: schemas.DeviceID(device + 1), Kind: kinds[random.IntN(len(kinds))]}})
		}
	}
	return c
}

// live runs the population between two instants; then all of it leaves at once.
func (c *population) live(from, to schemas.Millis) {
	for _, g := range c.gateways {
		g.alive, g.change = false, from
	}
	for _, d := range c.devices {
		d.at, d.moves = nil, from+rand64(c.random, 10*minute)
	}
	for at := from; at < to; at += second {
		c.pace(at)
		for i, g := range c.gateways {
			c.gateway(g, at)
			if g.alive && (at/second)%15 == schemas.Millis(i) {
				c.send(g, at)
			}
		}
		for _, d := range c.devices {
			if d.moves <= at {
				c.move(d, at)
			}
		}
	}
}

// gateway crashes or comes back when it is time.
func (c *population) gateway(g *populationGateway, at schemas.Millis) {
	if g.change > at {
		return
	}
	if g.alive = !g.alive; g.alive {
		g.Epoch, g.change = at, at+5*minute+rand64(c.random, c.lives)
		return
	}
	g.change = at + 5*second + rand64(c.random, minute)
	for _, d := range c.devices {
		if d.at == g {
			d.at = nil
			d.moves = at + rand64(c.random, 50*second) // some of them in time
			if c.random.IntN(5) == 0 {
				d.moves += 10 * minute
			}
		}
	}
}

// send is what a gateway says of those who are connected to it.
func (c *population) send(g *populationGateway, at schemas.Millis) {
	var rows []row
	for _, d := range c.devices {
		if d.at == g {
			rows = append(rows, c.beat(d, at))
		}
	}
	c.post(g.gateway, rows...)
}

// beat has been waiting at its gateway for a moment.
func (c *population) beat(d *populationDevice, at schemas.Millis) row {
	if c.random.IntN(20) == 0 {
		d.touched = at
	}
	r := d.row
	r.Idle, r.Age = at-d.touched, rand64(c.random, second)
	return r
}

// move connects a device that is not connected, and lets one that is leave.
func (c *population) move(d *populationDevice, at schemas.Millis) {
	if g := d.at; g != nil {
		d.at, d.moves = nil, at+rand64(c.random, 20*minute)
		if c.random.IntN(2) == 0 {
			r := d.row
			r.Bye = true
			c.post(g.gateway, r)
		}
		return
	}
	alive := slices.DeleteFunc(slices.Clone(c.gateways), func(g *populationGateway) bool { return !g.alive })
	if len(alive) == 0 {
		d.moves = at + second
		return
	}
	d.at, d.moves, d.touched = alive[c.random.IntN(len(alive))], at+minute+rand64(c.random, 20*minute), at
	r := d.row
	if c.random.IntN(4) == 0 {
		r.Idle = rand64(c.random, 8*minute)
	}
	d.touched -= r.Idle
	c.post(d.at.gateway, r)
}
