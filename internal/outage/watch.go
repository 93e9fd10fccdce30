package outage

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	probeTimeout = 3 * time.Second
	lookEvery    = time.Second // while something fails
	reportEvery  = time.Minute
	// settleAfter is how long nothing may have failed before an outage is over: the parts of a process
	// try again at different times.
	settleAfter = 5 * time.Second
	// calmAfter is the same for requests that fail although their server answers.
	calmAfter = time.Minute
	// repeatsFor is how long after an outage repeated lines are left out.
	repeatsFor = 20 * time.Second
	// maxHeld bounds the lines that wait for an answer of the servers; more are passed on.
	maxHeld = 100
	// maxEvents bounds the events that are told apart at a time; lines of more are passed on.
	maxEvents = 1000
)

// Dependency is a server that the process needs.
type Dependency struct {
	Name string // in lines: kafka, redis, postgres
	// Addresses are what errors call the server, such as 127.0.0.1:6379. They tell which server an error is
	// about when several are away.
	Addresses []string
	// Probe is nil if the server answers. It is called once a second while something fails.
	Probe func(context.Context) error
}

// Watch folds the lines of outages. Make it with New, and give its Handler to all loggers. Lines are
// passed on unchanged until Run is called. All methods may be called from any goroutine.
type Watch struct {
	next slog.Handler
	log  *slog.Logger // what the Watch itself writes
	wake chan struct{}

	mu      sync.Mutex // protects what follows; never held while anything blocks
	running bool
	servers []*server
	unnamed server // what fails although all servers answer, of a server that is not known
	held    []line
	events  map[string]int // lines by event, while something is or was away
	leftOut int            // lines that were not passed on, since the last line about them
	until   time.Time      // when lines that repeat an event are passed on again
}

// line is a line of the log that is held.
type line struct {
	next   slog.Handler
	record slog.Record
	name   string // of the server, where the line says it
	err    error
}

// New returns a Watch that writes to next.
func New(next slog.Handler) *Watch {
	return &Watch{next: next, log: slog.New(next), wake: make(chan struct{}, 1), events: map[string]int{}}
}

// Handler returns the handler for the loggers of the process.
func (w *Watch) Handler() slog.Handler { return &handler{watch: w, next: w.next} }

// Run watches servers until ctx ends. Call it once.
func (w *Watch) Run(ctx context.Context, servers []Dependency) error {
	w.mu.Lock()
	for _, s := range servers {
		w.servers = append(w.servers, &server{Dependency: s})
	}
	w.running = true
	w.mu.Unlock()
	defer w.stop()
	for {
		wake, again := w.wake, (<-chan time.Time)(nil)
		if w.busy() { // servers are not asked at every failure, and lines are held for a second at most
			wake, again = nil, time.After(lookEvery)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-again:
		}
		w.look(ctx)
	}
}

// Failed reports that a probe of the named server has failed outside of the Watch.
func (w *Watch) Failed(name string) {
	w.mu.Lock()
	for _, s := range w.servers {
		s.suspect = s.suspect || s.Name == name
	}
	w.mu.Unlock()
	w.alert()
}

// Active reports whether a server is away, or was a moment ago, so that the process is not itself yet.
func (w *Watch) Active() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.active(time.Now())
}

func (w *Watch) alert() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// active is Active with mu held.
func (w *Watch) active(now time.Time) bool {
	for _, s := range w.servers {
		if s.state == away {
			return true
		}
	}
	return now.Before(w.until)
}

func (w *Watch) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.all() {
		if s.state != calm || s.suspect {
			return true
		}
	}
	return len(w.held) > 0 || len(w.events) > 0
}

// all returns the servers, and last the one that stands for those that are not known.
func (w *Watch) all() []*server { return append(w.servers[:len(w.servers):len(w.servers)], &w.unnamed) }

// stop passes on what is held.
func (w *Watch) stop() {
	w.mu.Lock()
	w.running = false
	held := w.held
	w.held = nil
	w.mu.Unlock()
	for _, l := range held {
		_ = l.next.Handle(context.Background(), l.record)
	}
}

// take returns whether a line is to be passed on now. If not, it is counted or held.
func (w *Watch) take(next slog.Handler, r slog.Record, name string, words string) bool {
	err := errorOf(r)
	failure := r.Level >= slog.LevelWarn && Unreachable(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.running || strings.HasPrefix(r.Message, "ALARM"):
		return true
	case !failure:
		return !w.active(r.Time) || w.isNew(words)
	}
	if s := w.of(name, err); s != nil {
		s.count(err, r.Time)
		w.leftOut++
		return false
	}
	if len(w.held) == maxHeld {
		return true
	}
	w.held = append(w.held, line{next, r.Clone(), name, err})
	w.alert()
	return false
}

// isNew reports whether no line of the event was passed on since something has failed. If one was, it
// counts the line.
func (w *Watch) isNew(words string) bool {
	if w.events[words] == 0 {
		if len(w.events) < maxEvents {
			w.events[words] = 1
		}
		return true
	}
	w.events[words]++
	w.leftOut++
	return false
}

// of returns the server that is away and that an error is about; nil: none. An error that says nothing of
// its server is about the first that is away.
func (w *Watch) of(name string, err error) (found *server) {
	for _, s := range w.servers {
		switch {
		case s.Name == name || name == "" && s.names(err):
			if s.state != away {
				return nil
			}
			return s
		case found == nil && name == "" && s.state == away:
			found = s
		}
	}
	return found
}
