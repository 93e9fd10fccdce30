package console

import (
	"context"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/tick"
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

const (
	// sampleEvery is the time between two samples of the history, sampleCount how many are kept.
	sampleEvery = 5 * time.Second
	sampleCount = 180
)

// sampled is one moment of the history.
type sampled struct {
	online, away *int64
	rates        Rates
}

// history keeps the last 15 minutes.
type history struct {
	mu      sync.Mutex
	samples []sampled // the newest last, at most sampleCount
	at      time.Time // of the newest
}

// History is samples at equal distances, the oldest first; null where a value is not known.
type History struct {
	From        schemas.Millis `json:"from"`
	StepSeconds float64        `json:"step_seconds"`
	Online      []*int64       `json:"online"`
	Away        []*int64       `json:"away"`
	Beats       []*float64     `json:"beats"`
	Changes     []*float64     `json:"changes"`
	Deliveries  []*float64     `json:"deliveries"`
}

// add adds a sample.
func (h *history) add(at time.Time, s sampled) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.samples) == sampleCount {
		copy(h.samples, h.samples[1:])
		h.samples = h.samples[:sampleCount-1]
	}
	h.samples, h.at = append(h.samples, s), at
}

// shown is the history as it is answered.
func (h *history) shown() *History {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.samples)
	out := &History{StepSeconds: sampleEvery.Seconds(), Online: make([]*int64, n), Away: make([]*int64, n), Beats: make([]*float64, n),
		Changes: make([]*float64, n), Deliveries: make([]*float64, n)}
	if n > 0 {
		out.From = schemas.MillisOf(h.at.Add(-time.Duration(n-1) * sampleEvery))
	}
	for i, s := range h.samples {
		out.Online[i], out.Away[i] = s.online, s.away
		out.Beats[i], out.Changes[i], out.Deliveries[i] = s.rates.Beats, s.rates.Changes, s.rates.Deliveries
	}
	return out
}

// sample fills the history until ctx ends.
func (s *Server) sample(ctx context.Context) {
	var rates meter
	for range tick.Now(ctx, sampleEvery) {
		s.takeSample(ctx, &rates)
	}
}

func (s *Server) takeSample(ctx context.Context, rates *meter) {
	bounded, cancel := context.WithTimeout(ctx, sampleEvery)
	defer cancel()
	var one sampled
	if counts, err := s.View.Counts(bounded); err == nil && len(counts) > 0 {
		c := s.countsOf(counts)
		one.online, one.away = &c.Online, &c.Away
	}
	now := time.Now()
	one.rates = rates.next(s.processes(bounded, now))
	if ctx.Err() == nil {
		s.history.add(now, one)
	}
}
