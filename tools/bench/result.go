package bench

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
	Redis   string    `json:"redis,omitempty"` // its version
	Results []Result  `json:"results"`
}

// Result is what one bench measured.
type Result struct {
	Name    string   `json:"name"`
	What    string   `json:"what"`
	Users   int      `json:"users,omitempty"`
	Load    float64  `json:"load_average"` // of the last minute, before it began
	Took    float64  `json:"took_seconds"`
	Figures []Figure `json:"figures"`
	Notes   []string `json:"notes,omitempty"`
}

// Figure is one number.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Target is what the design asks for; 0 if nothing. More is better unless Less.
	Target float64 `json:"target,omitempty"`
	Less   bool    `json:"less_is_better,omitempty"`
	// Reference is the same of the one-key-per-user design on Redis, measured in
	// the same run; 0 if it was not.
	Reference float64 `json:"reference,omitempty"`
}

// add notes a figure and returns it to be completed.
func (r *Result) add(name string, value float64, unit string) *Figure {
	r.Figures = append(r.Figures, Figure{Name: name, Value: value, Unit: unit})
	return &r.Figures[len(r.Figures)-1]
}

// atLeast and atMost set the target.
func (f *Figure) atLeast(target float64) *Figure { f.Target = target; return f }
func (f *Figure) atMost(target float64) *Figure  { f.Target, f.Less = target, true; return f }
func (f *Figure) lessIsBetter() *Figure          { f.Less = true; return f }

// against sets what the reference came to.
func (f *Figure) against(reference float64) *Figure { f.Reference = reference; return f }

// Reached tells whether the target was; true without one.
func (f *Figure) Reached() bool {
	return f.Target == 0 || f.Less && f.Value <= f.Target || !f.Less && f.Value >= f.Target
}

// Ratio is how many times better than the reference; 0 without one.
func (f *Figure) Ratio() float64 {
	switch {
	case f.Reference == 0 || f.Value == 0:
		return 0
	case f.Less:
		return f.Reference / f.Value
	}
	return f.Value / f.Reference
}

func (r *Result) note(text string) { r.Notes = append(r.Notes, text) }

// spread is a collection of times.
type spread []time.Duration

// at is the quantile q of the sorted spread, 0 when it is empty.
func (s spread) at(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

func sorted(s spread) { slices.Sort(s) }

// addSpread notes the median, the 99th percentile and the last of some times, in
// milliseconds. It sorts them. The figures are valid until the next is added.
func (r *Result) addSpread(name string, times spread) (p50, p99, last *Figure) {
	sorted(times)
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"last", 1}} {
		r.add(name+", "+q.name, float64(times.at(q.at))/1e6, "ms").lessIsBetter()
	}
	n := len(r.Figures)
	return &r.Figures[n-3], &r.Figures[n-2], &r.Figures[n-1]
}

// lockedSpread is a spread that several goroutines fill.
type lockedSpread struct {
	mu    sync.Mutex
	times spread
}

func (l *lockedSpread) add(times spread) {
	l.mu.Lock()
	l.times = append(l.times, times...)
	l.mu.Unlock()
}

func (l *lockedSpread) all() spread {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.times)
}
