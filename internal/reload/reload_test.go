package reload_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stillhere/stillhere/internal/reload"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

// world is a watch on one file, in virtual time.
type world struct {
	*testing.T
	file     string
	signals  chan os.Signal
	registry *prometheus.Registry

	mu      sync.Mutex // protects all below
	log     bytes.Buffer
	loads   int
	outcome reload.Outcome
	err     error
}

// Write takes the log.
func (w *world) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(line)
}

func (w *world) load(context.Context) (reload.Outcome, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loads++
	return w.outcome, w.err
}

// answers sets what loads return from now on.
func (w *world) answers(outcome reload.Outcome, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcome, w.err = outcome, err
}

func (w *world) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, signals: make(chan os.Signal, 1), registry: prometheus.NewRegistry()}
	w.file = filepath.Join(t.TempDir(), "stillhere.yaml")
	w.write("a: 1")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = reload.Run(ctx, reload.Config{
			Files:   func() []string { return []string{w.file} },
			Signals: w.signals, Every: time.Second, Registry: w.registry, Log: slog.New(slog.NewTextHandler(w, nil)),
			Load: w.load,
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	synctest.Wait()
	return w
}

func (w *world) write(text string) {
	must.Do(w, os.WriteFile(w.file, []byte(text), 0o600))
}

// after lets time pass and returns how many loads there were.
func (w *world) after(d time.Duration) int {
	time.Sleep(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.loads
}

func (w *world) is(name string, want float64) {
	w.Helper()
	families := must.Get(w.registry.Gather())(w)
	for _, f := range families {
		if f.GetName() == "stillhere_config_"+name {
			if got := f.GetMetric()[0].GetGauge().GetValue(); got != want {
				w.Errorf("%s is %g, want %g", name, got, want)
			}
			return
		}
	}
	w.Errorf("there is no metric %s", name)
}

func TestAChangedFileIsLoadedWhenTwoLooksFindItTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if n := w.after(10 * time.Second); n != 0 {
			t.Errorf("%d loads without a change", n)
		}
		for _, half := range []string{"a", "a: ", "a: 2"} { // it is being written
			w.write(half)
			if n := w.after(time.Second); n != 0 {
				t.Errorf("%d loads of %q", n, half)
			}
		}
		if n := w.after(time.Second); n != 1 {
			t.Errorf("%d loads, want 1", n)
		}
		if n := w.after(time.Minute); n != 1 {
			t.Errorf("%d loads of one change", n)
		}
		w.is("generation", 2)
	})
}

func TestASwappedSymlinkIsAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other := w.file + ".new"
		must.Do(t, errors.Join(os.WriteFile(other, []byte("a: 3"), 0o600), os.Symlink(other, w.file+".link"),
			os.Rename(w.file+".link", w.file)))
		if n := w.after(3 * time.Second); n != 1 {
			t.Errorf("%d loads, want 1", n)
		}
	})
}

func TestASignalLoadsAtOnceAndAFailureIsReportedUntilALoadSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.is("last_reload_successful", 1)
		w.answers(reload.Outcome{}, errors.New("limit_requests: must not be negative"))
		w.signals <- os.Interrupt
		if n := w.after(0); n != 1 {
			t.Fatalf("%d loads, want 1", n)
		}
		w.is("last_reload_successful", 0)
		w.is("generation", 1)
		if log := w.logged(); !strings.Contains(log, "nothing has changed") || !strings.Contains(log, "limit_requests") {
			t.Errorf("the log says %s", log)
		}
		w.answers(reload.Outcome{Applied: []string{"log-level"}, Restart: []string{"listen", "redis"},
			Policy: "stillhere policy set online_ttl=40s"}, nil)
		w.signals <- os.Interrupt
		w.after(0)
		w.is("last_reload_successful", 1)
		w.is("generation", 2)
		w.is("settings_waiting_for_restart", 2)
		for _, want := range []string{"log-level", "listen redis", "need a restart", "policy set online_ttl=40s"} {
			if !strings.Contains(w.logged(), want) {
				t.Errorf("the log lacks %q:\n%s", want, w.logged())
			}
		}
		must.Get(testutil.GatherAndLint(w.registry))(t)
	})
}
