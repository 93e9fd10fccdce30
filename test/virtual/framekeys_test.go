package virtual

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

// Receipts for heartbeats that every detector refuses would be false. Detectors get keys while an ingest without keys
// runs; then others start.
func TestAnIngestWhoseHeartbeatsDetectorsRefuseDoesNotStartAndSaysSoWhileItRuns(t *testing.T) {
	inWorld(t, size{partitions: 2, tick: time.Second, unsigned: true}, func(w *world) {
		if err := policy.CheckSigned(context.Background(), clusterOf(w.config)); err == nil || !strings.Contains(err.Error(), "start the detectors first") {
			w.Errorf("before the first commit a command may write: %v", err)
		}
		said := &logged{Handler: w.log.Handler()}
		w.log = slog.New(said)
		keys := func(name string) func(*app.Config) {
			path := filepath.Join(filepath.Dir(w.config.Store.SQLite), name)
			must.Do(w, os.WriteFile(path, []byte(signing.NewMaster().Hex()), 0o600))
			return func(c *app.Config) { c.Kafka.FrameKeys = path }
		}
		ours, others := keys("frame.keys"), keys("other.keys")
		in := w.start("ingest", "ingest")
		is := func(differs string, errors, over int) {
			w.Helper()
			w.metricIs(differs, "stillhere_policy_differs", in)
			if n, m := said.count("detectors refuse the heartbeats of this process", "--frame-keys: is needed"), said.count("detectors take the heartbeats of this process again"); n != errors || m != over {
				w.Errorf("it said %d times that its heartbeats are refused and %d times that they no longer are, want %d and %d", n, m, errors, over)
			}
		}
		detector := w.start("detector", "detector")
		time.Sleep(2 * time.Minute)
		is("0", 0, 0)
		detector.stop()
		detector = w.start("detector", "detector", ours)
		time.Sleep(2 * time.Minute)
		is("1", 1, 0)
		for want, change := range map[string]func(*app.Config){"--frame-keys: is needed": func(*app.Config) {}, "--frame-keys: signs by the master": others} {
			p := w.begin("ingest", "refused", change)
			select {
			case err := <-p.ended:
				p.over = true
				if err == nil || !strings.Contains(err.Error(), want) {
					w.Errorf("%v, must have %q", err, want)
				}
			case <-time.After(time.Minute):
				w.Errorf("it starts, and must say %q", want)
			}
		}
		w.start("ingest", "signs", ours).stop()
		detector.stop()
		w.start("detector", "detector")
		time.Sleep(2 * time.Minute)
		is("0", 1, 1)
		w.start("ingest", "signs", others).stop() // whose frames count as any others
	})
}
