package loadtest

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/schemas"
)

// Roles are all roles, in this process, with the production wiring.
type Roles struct {
	API    API
	SQLite string // the file of the durable store
	admin  API
	asked  time.Time
}

// AllRoles starts all roles, with settings that change, if not nil, has changed.
func (r *Rig) AllRoles(change func(*app.Config)) *Roles { return r.Roles("all", change) }

// Roles starts a role, or all. It refuses a cluster with the topics of a Stillhere: the roles' consumer
// groups have fixed names.
func (r *Rig) Roles(name string, change func(*app.Config)) *Roles {
	t := r.t
	if len(t.Brokers) > 0 {
		if err := soon(func(ctx context.Context) error {
			_, err := admin.CheckTopics(ctx, kafka.Config{Brokers: t.Brokers})
			return err
		}); err == nil {
			t.Fatalf("there is a Stillhere on the Kafka at %v (it has topics that begin with %q), whose consumer groups this bench would join: choose another cluster",
				t.Brokers, schemas.DefaultPrefix)
		}
	}
	config := app.Defaults()
	config.Instance = "bench"
	config.Kafka = app.Kafka{Brokers: r.Kafka.Brokers, Prefix: r.Kafka.Prefix}
	config.Redis.Addrs = []string{r.Redis}
	config.Store = app.Store{SQLite: filepath.Join(t.TempDir(), "bench.db")}
	config.Listen, config.Admin = t.FreeAddress(), t.FreeAddress()
	if change != nil {
		change(&config)
	}
	t.Role(name, config)
	return &Roles{API: API("http://" + config.Listen), SQLite: config.Store.SQLite, admin: API("http://" + config.Admin)}
}

// Role runs a role in this process until the end of the part, and returns when it is ready.
func (t *T) Role(name string, config app.Config) {
	started := make(chan struct{})
	running := t.Go(func(ctx context.Context) error { return RunRole(ctx, name, config, func() { close(started) }) })
	select {
	case <-started:
	case err := <-running.Ended:
		t.Fatalf("the role %s ended: %w", name, err)
	case <-time.After(t.patience()):
		t.Fatalf("the role %s did not become ready", name)
	}
}

// RunRole runs a role until ctx ends.
func RunRole(ctx context.Context, name string, config app.Config, ready func()) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	return app.Run(ctx, name, config, log, ready)
}

// CaughtUp reports whether everything is ready and the stores of last seen have every transition.
// Being ready is less: it forgives a few seconds of lag.
func (r *Roles) CaughtUp(ctx context.Context) bool {
	if time.Since(r.asked) < 100*time.Millisecond {
		return false
	}
	r.asked = time.Now()
	var report struct {
		Groups []struct {
			Group      string `json:"group"`
			Partitions []struct {
				Lag int64 `json:"lag_records"`
			} `json:"partitions"`
		} `json:"groups"`
	}
	if r.admin.Get(ctx, "/readyz?verbose", &report) != nil {
		return false
	}
	stores := 0
	for _, g := range report.Groups {
		if !strings.Contains(g.Group, "lastseen") {
			continue
		}
		stores++
		for _, p := range g.Partitions {
			if p.Lag > 0 {
				return false
			}
		}
	}
	return stores > 0
}

// FreeAddress is one that nobody listens on now.
func (t *T) FreeAddress() string {
	l, err := new(net.ListenConfig).Listen(t.ctx, "tcp", "127.0.0.1:0")
	t.Check(err)
	t.Check(l.Close())
	return l.Addr().String()
}

// TempDir is a folder that is deleted at the end of the part.
func (t *T) TempDir() string {
	dir, err := os.MkdirTemp("", "stillhere-bench-")
	t.Check(err)
	t.Cleanup(func() error { return os.RemoveAll(dir) })
	return dir
}
