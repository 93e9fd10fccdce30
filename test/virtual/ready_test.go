package virtual

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/app"
)

// outlet is the way to a server, which can be away (refuses, and ends what was there) or silent
// (takes everything and answers nothing).
type outlet struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu           sync.Mutex
	away, silent bool
	conns        map[*outletConn]bool
}

type outletConn struct {
	net.Conn
	of *outlet
}

func (c *outletConn) Write(b []byte) (int, error) {
	c.of.mu.Lock()
	silent := c.of.silent
	c.of.mu.Unlock()
	if silent {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *outletConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

func (o *outlet) connect(ctx context.Context, network, address string) (net.Conn, error) {
	o.mu.Lock()
	away := o.away
	o.mu.Unlock()
	if away {
		return nil, errors.New("connection refused")
	}
	conn, err := o.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &outletConn{conn, o}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.conns[c] = true
	return c, nil
}

// set changes what the server does. Connections from before a silence are of no use after it.
func (o *outlet) set(away, silent bool) {
	o.mu.Lock()
	ended := o.conns
	if silent {
		ended = nil
	} else {
		o.conns = map[*outletConn]bool{}
	}
	o.away, o.silent = away, silent
	o.mu.Unlock()
	for c := range ended {
		c.Conn.Close()
	}
}

// readiness is what /readyz answers, and what /readyz?verbose says is degraded.
func (p *process) readiness() string {
	p.w.Helper()
	// Examining everything is bounded by five seconds.
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	status, _ := p.w.send(ctx, http.MethodGet, p.admin+"/readyz", nil)
	verbose, text := p.w.send(ctx, http.MethodGet, p.admin+"/readyz?verbose", nil)
	var report struct{ Degraded []string }
	if err := json.Unmarshal(text, &report); err != nil {
		p.w.Fatalf("%s: %v: %s", p.name, err, text)
	}
	if status != verbose {
		return fmt.Sprintf("%d, but verbose %d: %s", status, verbose, text)
	}
	if status != http.StatusOK {
		return "not ready"
	}
	slices.Sort(report.Degraded)
	return strings.TrimSpace("ready " + strings.Join(report.Degraded, " "))
}

func TestARoleIsNotReadyJustWhenItCannotDoItsOwnJob(t *testing.T) {
	inWorld(t, size{partitions: 2}, func(w *world) {
		kafka := &outlet{dial: w.config.Kafka.Dialer, conns: map[*outletConn]bool{}}
		redis := &outlet{dial: w.config.Redis.Dialer, conns: map[*outletConn]bool{}}
		behind := func(c *app.Config) { c.Kafka.Dialer, c.Redis.Dialer = kafka.connect, redis.connect }
		roles := map[string]*process{}
		for _, role := range []string{"lastseen", "detector", "fanout", "ingest", "api", "all"} {
			roles[role] = w.begin(role, role, behind)
		}
		for _, p := range roles {
			p.awaitReady()
		}
		beat := func(of string, user int) int {
			status, _ := w.try(http.MethodPost, roles[of].base+"/presence/heartbeats", map[string]any{"beats": []map[string]any{{"user_id": user, "device_id": 7}}})
			return status
		}
		is := func(what string, want map[string]string) {
			w.Helper()
			for role, p := range roles {
				got := ""
				for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(time.Second) {
					if got = p.readiness(); role == "all" && want[role] != "ready" {
						got = loops.ReplaceAllString(got, "") // they may have something to do there, or not
					}
					if got == want[role] {
						break
					}
				}
				if got != want[role] {
					w.Errorf("%s: %s is %q, want %q", what, role, got, want[role])
				}
				if want[role] == "not ready" {
					continue
				}
				w.until("the metric of "+role+" says the same", time.Minute, func() bool {
					_, text := w.try(http.MethodGet, p.admin+"/metrics", nil)
					got := "ready " + degradedIn(string(text))
					if role == "all" && want[role] != "ready" {
						got = loops.ReplaceAllString(got, "")
					}
					return strings.TrimSpace(got) == want[role]
				})
			}
		}
		well := map[string]string{"lastseen": "ready", "detector": "ready", "fanout": "ready", "ingest": "ready", "api": "ready", "all": "ready"}
		is("with everything", well)
		for _, silent := range []bool{false, true} {
			for round := range 2 {
				what := map[bool]string{false: "away", true: "silent"}[silent]
				redis.set(!silent, silent)
				is("Redis is "+what, map[string]string{"lastseen": "not ready", "detector": "ready", "fanout": "not ready", "ingest": "ready redis", "api": "ready redis", "all": "ready redis"})
				for user := range 20 {
					for _, of := range []string{"ingest", "all"} {
						begun := time.Now()
						if status := beat(of, 1+user); status != http.StatusAccepted {
							w.Errorf("without Redis %s answers a beat with %d", of, status)
						}
						if took := time.Since(begun); took > time.Second {
							w.Errorf("without Redis a beat takes %s", took)
						}
					}
				}
				redis.set(false, false)
				is(fmt.Sprintf("Redis is back, round %d", round), well)

				kafka.set(!silent, silent)
				is("Kafka is "+what, map[string]string{"lastseen": "not ready", "detector": "not ready", "fanout": "not ready", "ingest": "not ready", "api": "ready kafka", "all": "not ready"})
				kafka.set(false, false)
				is(fmt.Sprintf("Kafka is back, round %d", round), well)
			}
		}
		// Two detectors share the group. One that is stopped in the middle of a rebalance whose
		// other member stops as well cannot commit what it has in hand, and says so.
		time.Sleep(time.Minute)
	})
}

// loops are those of which a process of all roles can be degraded.
var loops = regexp.MustCompile(` (sink|seen|projector|publisher|detector)\b`)

// degradedIn are the parts that the metrics say a process goes on without.
func degradedIn(metrics string) string {
	var without []string
	for _, line := range strings.Split(metrics, "\n") {
		if rest, ok := strings.CutPrefix(line, `stillhere_degraded{what="`); ok && strings.HasSuffix(line, " 1") {
			name, _, _ := strings.Cut(rest, `"`)
			without = append(without, name)
		}
	}
	slices.Sort(without)
	return strings.Join(without, " ")
}

// A process of all roles takes beats while its detector waits for the group: others go on
// with its partitions.
func TestAllRolesInOneProcessTakeBeatsWhileTheDetectorComesBack(t *testing.T) {
	inWorld(t, size{partitions: 2}, func(w *world) {
		p := w.start("all", "all")
		cluster := w.kafka.Cluster()
		var refuses atomic.Bool
		refuses.Store(true)
		cluster.ControlKey(int16(kmsg.JoinGroup), func(request kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			if request.(*kmsg.JoinGroupRequest).Group != "stillhere.detector" || !refuses.Load() {
				return nil, nil, false
			}
			response := request.ResponseKind().(*kmsg.JoinGroupResponse)
			response.ErrorCode = kerr.CoordinatorLoadInProgress.Code
			return response, nil, true
		})
		gone := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Group: "stillhere.detector", TopLevel: true, Err: kerr.UnknownMemberID, Count: -1})
		w.until("the detector is out of the group", time.Minute, func() bool {
			return strings.Contains(p.readiness(), "detector") || p.readiness() == "not ready"
		})
		if got := p.readiness(); got != "ready detector" {
			w.Errorf("it is %q", got)
		}
		gone.Remove()
		refuses.Store(false)
		w.until("everything is well", 2*time.Minute, func() bool { return p.readiness() == "ready" })
	})
}
