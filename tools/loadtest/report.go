package loadtest

import (
	"slices"
	"sync"
	"time"
)

// Report is what was measured, and on what.
type Report struct {
	Version string    `json:"version"`
	At      time.Time `json:"at"`
	Machine Machine   `json:"machine"`
	Kafka   string    `json:"kafka"`
	Results []Result  `json:"results"`
}

// Result is what one bench measured.
type Result struct {
	Name       string   `json:"name"`
	What       string   `json:"what"`
	Population int      `json:"users,omitempty"`
	Load       float64  `json:"load_average"` // of the last minute, before it began
	Took       float64  `json:"took_seconds"`
	Figures    []Figure `json:"figures"`
	Notes      []string `json:"notes,omitempty"`
}

// Figure is one number.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Target is what the design asks for; 0 if nothing. More is better unless Less.
	Target float64 `json:"target,omitempty"`
	Less   bool    `json:"less_is_better,omitempty"`
}

// Add notes a figure and returns it to be completed.
func (r *Result) Add(name string, value float64, unit string) *Figure {
	r.Figures = append(r.Figures, Figure{Name: name, Value: value, Unit: unit})
	return &r.Figures[len(r.Figures)-1]
}

// AtLeast sets a target; AtMost does, and less is better; LessIsBetter sets none.
func (f *Figure) AtLeast(target float64) *Figure { f.Target = target; return f }
func (f *Figure) AtMost(target float64) *Figure  { f.Target, f.Less = target, true; return f }
func (f *Figure) LessIsBetter() *Figure          { f.Less = true; return f }

// Reached reports whether the target was reached; true without one.
func (f *Figure) Reached() bool {
	return f.Target == 0 || f.Less && f.Value <= f.Target || !f.Less && f.Value >= f.Target
}

// Note adds a sentence below the figures.
func (r *Result) Note(text string) { r.Notes = append(r.Notes, text) }

// Spread is a collection of times.
type Spread []time.Duration

// At is the quantile q of the sorted Spread, 0 when it is empty.
func (s Spread) At(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

// AddSpread notes the median, the 99th percentile and the last of some times, in
// milliseconds. It sorts them. The figures, in this order, are valid until the next is added.
func (r *Result) AddSpread(name string, times Spread) SpreadFigures {
	slices.Sort(times)
	for _, q := range quantiles {
		r.Add(name+", "+q.name, float64(times.At(q.at))/1e6, "ms").LessIsBetter()
	}
	return r.Figures[len(r.Figures)-len(quantiles):]
}

var quantiles = []struct {
	name string
	at   float64
}{{"p50", 0.5}, {"p99", 0.99}, {"last", 1}}

// SpreadFigures are the median, the 99th percentile and the last.
type SpreadFigures []Figure

// AtMost sets a target for the 99th percentile.
func (f SpreadFigures) AtMost(target float64) { f[1].AtMost(target) }

// P99 is the 99th percentile.
func (f SpreadFigures) P99() float64 { return f[1].Value }

// LockedSpread is a Spread that several goroutines fill.
type LockedSpread struct {
	mu    sync.Mutex
	times Spread
}

// Add adds to it.
func (l *LockedSpread) Add(times Spread) {
	l.mu.Lock()
	l.times = append(l.times, times...)
	l.mu.Unlock()
}

// All are the times so far.
func (l *LockedSpread) All() Spread {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.times)
}
