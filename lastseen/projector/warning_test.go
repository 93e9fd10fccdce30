package projector_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/projector"
)

const nothing = -1 // was ever committed

// warned is a projector that takes up its partition, and what it has warned about.
func warned(t *testing.T, committed int64, newRedis bool) (p *pipeline, take func(), warnings func() string) {
	t.Helper()
	p = start(t, redistest.Mini(t))
	config := lastseen.Defaults()
	config.NewRedis = newRedis
	var logged bytes.Buffer
	p.Projector = projector.New(p.view, p.statuses, config, lastseen.NewMetrics(prometheus.NewRegistry()),
		slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn})))
	take = func() {
		must.Get(p.Start(t.Context(), stream.Assignment{Offset: committed, Partitions: 1}))(t)
		p.tick(t)
	}
	warnings = func() string {
		defer logged.Reset()
		return logged.String()
	}
	return p, take, warnings
}

func TestARedisThatNobodyEverFilledIsNoReasonToWarnButItsLossIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		committed int64
		newRedis  bool
	}{{"the group has committed nothing", nothing, false}, {"it was made for this process", 7, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, take, warnings := warned(t, c.committed, c.newRedis)
			take()
			if said := warnings(); said != "" {
				t.Errorf("a warning about what is new: %s", said)
			}
			must.Do(t, p.server.Flush())
			p.tick(t)
			if said := warnings(); !strings.Contains(said, "reason=empty") {
				t.Errorf("no warning about a loss, but %q", said)
			}
		})
	}
}

func TestARedisThatIsEmptyAlthoughItWasFilledIsWarnedAbout(t *testing.T) {
	t.Parallel()
	p, take, warnings := warned(t, 7, false)
	take()
	if said := warnings(); !strings.Contains(said, "reason=empty") {
		t.Errorf("no warning, but %q", said)
	}
	must.Do(t, p.server.Flush())
	p.Stop(0)
	take()
	if said := warnings(); !strings.Contains(said, "reason=empty") {
		t.Errorf("no warning about a loss between two owners, but %q", said)
	}
}
