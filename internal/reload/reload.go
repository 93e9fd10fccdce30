package reload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcome is what a load has found and changed. It names settings by their flags.
type Outcome struct {
	Applied []string // are in force now
	Restart []string // differ, and need a restart
	// Policy is the command that brings the policy of the configuration into force; "" if the
	// configuration asks for the same policy as before.
	Policy string
}

// Config says what to watch and what to do. All fields are needed.
type Config struct {
	// Files are the files whose contents count, at each look.
	Files func() []string
	// Signals ask for a load at once, whether or not a file has changed.
	Signals <-chan os.Signal
	// Every is the time between two looks.
	Every time.Duration
	// Load reads the configuration and puts it into force. After an error nothing has changed. Only Run
	// calls it.
	Load     func(context.Context) (Outcome, error)
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// Run watches until ctx ends.
func Run(ctx context.Context, c Config) error {
	w := &watch{Config: c, metrics: NewMetrics(c.Registry), used: contents(c.Files())}
	w.metrics.generation.Set(1)
	w.metrics.successful.Set(1)
	w.metrics.at.SetToCurrentTime()
	look := time.NewTicker(c.Every)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.Signals:
			w.load(ctx, "signal")
		case <-look.C:
			w.look(ctx)
		}
	}
}

// watch is owned by the goroutine of Run.
type watch struct {
	Config
	metrics Metrics
	used    []byte // contents of the last load
	seen    []byte // other contents, at the look before; nil: none
}

// look loads the files if they have changed and have been the same at two looks.
func (w *watch) look(ctx context.Context) {
	now := contents(w.Files())
	switch {
	case bytes.Equal(now, w.used):
		w.seen = nil
	case bytes.Equal(now, w.seen):
		w.load(ctx, "file")
	default:
		w.seen = now
	}
}

func (w *watch) load(ctx context.Context, trigger string) {
	// Of before the load: what changes during it is found at the next looks.
	before := contents(w.Files())
	outcome, err := w.Load(ctx)
	w.used, w.seen = before, nil
	if names := contents(w.Files()); err == nil && !bytes.Equal(names, before) {
		w.used = names // the configuration names other files now
	}
	if err != nil {
		w.metrics.successful.Set(0)
		w.Log.Error("the configuration is not reloaded and nothing has changed: correct it and send SIGHUP, or wait until the file is read again",
			"trigger", trigger, "error", err)
		return
	}
	w.metrics.successful.Set(1)
	w.metrics.at.SetToCurrentTime()
	w.metrics.generation.Inc()
	w.metrics.waiting.Set(float64(len(outcome.Restart)))
	w.Log.Info("the configuration is reloaded", "trigger", trigger, "changed", outcome.Applied)
	if len(outcome.Restart) > 0 {
		w.Log.Warn("the configuration has changes that need a restart: these settings stay as they are until then",
			"settings", outcome.Restart)
	}
	if outcome.Policy != "" {
		w.Log.Warn("the configuration asks for another policy, which a reload does not change: use this command, "+
			"or undo the change, because this process would not start again with it", "command", outcome.Policy)
	}
}

// contents is a hash of the files, of why they cannot be read, and of their names.
func contents(files []string) []byte {
	all := sha256.New()
	for _, file := range files {
		text, err := os.ReadFile(file)
		fmt.Fprintf(all, "%q %d %v\n", file, len(text), err)
		all.Write(text)
	}
	return all.Sum(nil)
}
