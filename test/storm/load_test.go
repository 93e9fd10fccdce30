//go:build unix

package storm_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

const (
	stormUsers = 400
	loadEvery  = 20 * time.Millisecond
	aliveEvery = 1500 * time.Millisecond
)

// load writes what gateways, users and badly set up producers might. One
// goroutine owns it.
type load struct {
	*storm
	random   *rand.Rand
	names    map[schemas.UserID]schemas.Name // nil in int mode
	users    [stormPartitions][]schemas.UserID
	gateways []*loadGateway
	strange  schemas.DeviceID // the last device that beat in a wrong partition
	last     schemas.Outgoing
	waiting  sync.WaitGroup // for Kafka's acknowledgements
}

// loadGateway is a gateway as the detector can see it.
type loadGateway struct {
	head     schemas.FrameHead
	sequence [stormPartitions]uint64
	leased   bool      // it tells the topic gateways that it is, not all partitions
	alive    time.Time // when it last did
	named    map[schemas.UserID]bool
}

// firstStrange is the device of the first beat in a wrong partition; ordinary
// devices are below.
const firstStrange = 1000

// loadUntil writes heartbeats until calm is closed; the channel that it returns is
// closed when Kafka has all of them.
func (s *storm) loadUntil(calm <-chan struct{}) <-chan struct{} {
	l := &load{storm: s, random: rand.New(rand.NewPCG(s.seed, 0)), strange: firstStrange}
	ids, names := s.mode.People(stormUsers)
	l.names, s.people = names, names
	for _, id := range ids {
		p := schemas.PartitionOf(id, stormPartitions)
		l.users[p] = append(l.users[p], id)
	}
	for i := range 4 {
		l.gateways = append(l.gateways, &loadGateway{head: schemas.FrameHead{Gateway: schemas.GatewayID(fmt.Sprint("gw-", i)), GatewayEpoch: schemas.MillisOf(time.Now())},
			leased: i%2 == 0, named: map[schemas.UserID]bool{}})
	}
	l.gateways = append(l.gateways, &loadGateway{named: map[schemas.UserID]bool{}}) // beats that come through none
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(loadEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				l.step()
			case <-calm:
				l.waiting.Wait()
				return
			}
		}
	}()
	return done
}

// step is one of many small things.
func (l *load) step() {
	p := l.random.Int32N(stormPartitions)
	g := l.gateways[l.random.IntN(len(l.gateways))]
	user := l.users[p][l.random.IntN(len(l.users[p]))]
	switch n := l.random.IntN(200); {
	case n < 4: // visibility changes again
		visibility := schemas.Nobody
		if l.random.IntN(2) == 0 {
			visibility = schemas.Everyone
		}
		l.append(p, l.visibility(user, visibility))
	case n < 6: // what cannot be understood
		l.append(p, []byte{0xff, byte(n), 0xff})
	case n < 9: // a beat in a wrong partition, by a device that is never heard again
		l.strange++
		rows := []schemas.Beat{{User: user, Device: l.strange, Kind: schemas.Bot}}
		l.append((p+1+l.random.Int32N(stormPartitions-1))%stormPartitions,
			l.named(&loadGateway{named: map[schemas.UserID]bool{}}, schemas.AppendFrame(nil, schemas.FrameHead{}, rows), rows, false))
	case n < 15 && l.last.Value != nil: // a frame that was written twice
		l.append(l.last.Partition, l.last.Value)
	case n < 16 && g.head.Gateway != "": // a gateway drains
		for p := range int32(stormPartitions) {
			l.frame(g, p, true, nil)
		}
	case n < 17 && g.head.Gateway != "": // a gateway comes back as another process
		*g = loadGateway{head: schemas.FrameHead{Gateway: g.head.Gateway, GatewayEpoch: schemas.MillisOf(time.Now())},
			leased: g.leased, named: map[schemas.UserID]bool{}}
	case n < 18 && l.names != nil:
		l.policies(p)
	default:
		l.frame(g, p, false, l.rows(g, p))
	}
	if g.head.Gateway != "" && time.Since(g.alive) >= aliveEvery {
		g.alive = time.Now()
		for p := int32(0); p < stormPartitions && !g.leased; p++ {
			l.frame(g, p, false, nil)
		}
		if g.leased {
			l.write(schemas.Outgoing{Topic: schemas.Gateways, Value: schemas.AppendFrame(nil, g.head, nil)})
		}
	}
}

// rows are what a gateway heard of some users of a partition.
func (l *load) rows(g *loadGateway, p int32) []schemas.Beat {
	rows := make([]schemas.Beat, 1+l.random.IntN(10))
	for i := range rows {
		b := schemas.Beat{User: l.users[p][l.random.IntN(len(l.users[p]))], Device: schemas.DeviceID(1 + l.random.IntN(3)), Bye: l.random.IntN(12) == 0}
		b.Kind = []schemas.DeviceKind{schemas.Mobile, schemas.Desktop, schemas.Web}[b.Device-1]
		switch l.random.IntN(12) {
		case 0:
			b.Age = schemas.Millis(l.random.IntN(6000)) // it waited for an outage to end
		case 1, 2, 3:
			b.Age = schemas.Millis(l.random.IntN(1000))
		}
		if l.random.IntN(4) == 0 {
			b.Idle = schemas.Millis(l.random.IntN(6000))
		}
		if g.head.Gateway != "" && l.random.IntN(3) == 0 {
			b.Connection = schemas.ConnectionID(1 + l.random.IntN(3))
			b.Lost = !b.Bye && l.random.IntN(4) == 0
		}
		rows[i] = b
	}
	return rows
}

func (l *load) frame(g *loadGateway, p int32, draining bool, rows []schemas.Beat) {
	head := g.head
	head.Draining = draining
	if head.Gateway != "" {
		g.sequence[p]++
		head.Sequence = g.sequence[p]
	}
	l.last = schemas.Outgoing{Partition: p, Value: l.named(g, schemas.AppendFrame(nil, head, rows), rows, l.names != nil && len(rows) > 0 && l.random.IntN(50) == 0)}
	l.append(p, l.last.Value)
}

func (l *load) append(p int32, value []byte) {
	l.write(schemas.Outgoing{Topic: schemas.Heartbeats, Partition: p, Value: value})
}

func (l *load) write(out schemas.Outgoing) {
	l.waiting.Add(1)
	l.producer.Append(context.Background(), out, func(err error) {
		if err != nil {
			l.Errorf("writing heartbeats: %v", err)
		}
		l.waiting.Done()
	})
}
