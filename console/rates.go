package console

import (
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// totals are counters of one process, by name; a counter that the process does not have is missing.
type totals map[string]float64

// meter turns the totals of processes into rates. What a process did since its last total stands until
// it has written another one. A process that has started again, or is new, counts from its second total
// on.
type meter struct {
	last map[string]metered // by process
}

// metered is a process at its newest total.
type metered struct {
	at    schemas.Millis
	total totals
	rates totals // per second, up to at
}

// next is the rates up to the newest totals; what no process counted twice is not known.
func (m *meter) next(processes []redisview.Process) Rates {
	sums, next := totals{}, map[string]metered{}
	for _, p := range processes {
		key := p.Role + "/" + p.Instance + "/" + p.Started.String()
		was, known := m.last[key]
		now := metered{at: p.At, total: p.Totals, rates: totals{}}
		switch {
		case known && p.At <= was.at:
			now = was
		case known:
			for name, total := range p.Totals {
				if before, counted := was.total[name]; counted && total >= before {
					now.rates[name] = (total - before) / (float64(p.At-was.at) / 1000)
				}
			}
		}
		next[key] = now
		for name, rate := range now.rates {
			sums[name] += rate
		}
	}
	m.last = next
	first := func(names ...string) *float64 {
		for _, name := range names {
			if sum, known := sums[name]; known {
				return &sum
			}
		}
		return nil
	}
	// The detector knows all beats, also those of gateways that write to Kafka themselves; fan-out knows
	// the changes that others may see.
	return Rates{Beats: first(redisview.BeatsApplied, redisview.BeatsTaken),
		Changes: first(redisview.ChangesDecided, redisview.ChangesPublished), Deliveries: first(redisview.Deliveries)}
}
