package virtual

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/canary"
	"github.com/stillhere/stillhere/tools/dataset"
)

// canaryRun is a canary that runs in a world.
type canaryRun struct {
	*canary.Canary
	w        *world
	registry *prometheus.Registry
	stop     func()
}

// runCanary runs a canary on these processes, with changed settings.
func (w *world) runCanary(ingest, api *process, change func(*canary.Config)) *canaryRun {
	w.Helper()
	r := &canaryRun{w: w, registry: prometheus.NewRegistry()}
	config := canary.Config{Ingest: client.HTTP{URL: ingest.base, Client: w.http}, Reads: client.HTTP{URL: api.base, Client: w.http},
		User: canary.User{ID: canary.DefaultUser}, Silent: canary.User{ID: canary.DefaultSilent}, Interval: 10 * time.Second, Timeout: 5 * time.Second,
		Policy: func() schemas.Policy { return w.config.Policy }, Log: dataset.Topic{Reader: w.tap.reader},
		Registry: r.registry, Logger: w.log}
	if change != nil {
		change(&config)
	}
	var err error
	r.Canary, err = canary.New(config)
	must.Do(w, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("the canary ended with %v", err)
		}
	}
	return r
}

// count sums the series of a metric with these values of labels.
func (r *canaryRun) count(name string, labels ...string) (sum float64) {
	r.w.Helper()
	families := must.Get(r.registry.Gather())(r.w)
	for _, family := range families {
		for _, series := range family.GetMetric() {
			if family.GetName() == name && hasLabels(series, labels) {
				sum += series.GetCounter().GetValue() + series.GetHistogram().GetSampleSum()
			}
		}
	}
	return sum
}

func hasLabels(series *dto.Metric, values []string) bool {
	has := map[string]bool{}
	for _, pair := range series.GetLabel() {
		has[pair.GetValue()] = true
	}
	for _, value := range values {
		if !has[value] {
			return false
		}
	}
	return true
}

const canaryRounds, canaryFailures = "stillhere_canary_rounds_total", "stillhere_canary_failures_total"

func TestACanaryOfAHealthyServiceCountsNoFailureAndRestartsInAnyState(t *testing.T) {
	long(t)
	inWorld(t, size{partitions: 2}, func(w *world) {
		all := w.startAll()
		r := w.runCanary(all["ingest"], all["api"], nil)
		time.Sleep(12 * time.Minute)
		if failed := r.count(canaryFailures); failed != 0 {
			w.Errorf("%g steps failed", failed)
		}
		if byes, silences := r.count(canaryRounds, "bye", "ok"), r.count(canaryRounds, "silence", "ok"); byes != 72 || silences != 2 {
			w.Errorf("%g rounds ended with a bye and %g with silence, must be 72 and 2", byes, silences)
		}
		late := r.count("stillhere_canary_step_seconds", "silence") / 2
		if most := w.config.Policy.AllowedLateness + 500*time.Millisecond; late < .25 || late > most.Seconds() {
			w.Errorf("offline by silence came %gs after the limit, must be at most %s", late, most)
		}
		must.Do(w, r.Ready())

		// The next one finds the silent user away.
		w.until("the silent user is away", 6*time.Minute, func() bool { return word(w.user(all["api"].base, canary.DefaultSilent).State) == "away" })
		r.stop()
		r = w.runCanary(all["ingest"], all["api"], nil)
		// At this instant, at which the canary stops, a round begins too.
		time.Sleep(6 * time.Minute)
		if failed, ok := r.count(canaryFailures), r.count(canaryRounds, "silence", "ok"); failed != 0 || ok != 1 {
			w.Errorf("after a restart %g steps failed and %g rounds ended with silence, must be 0 and 1", failed, ok)
		}
		r.stop()
		time.Sleep(time.Second)
		if state := word(w.user(all["api"].base, canary.DefaultUser).State); state != "offline" {
			w.Errorf("the canary has stopped, and its user is %s", state)
		}
	})
}

func TestACanaryCountsWhatFailsAndGoesOn(t *testing.T) {
	inWorld(t, size{partitions: 2}, func(w *world) {
		all := w.startAll()
		r := w.runCanary(all["ingest"], all["api"], nil)
		time.Sleep(time.Minute)
		all["detector"].stop()
		time.Sleep(time.Minute)
		if online, bye := r.count(canaryFailures, "online", "timeout"), r.count(canaryFailures, "bye", "timeout"); online+bye < 1 {
			w.Errorf("without a detector %g beats and %g byes were not seen within the timeout, must be at least one", online, bye)
		}
		if err := r.Ready(); err != nil {
			w.Errorf("a canary that reports failures must be ready: %v", err)
		}
		w.start("detector", "detector")
		time.Sleep(30 * time.Second)
		failed := r.count(canaryRounds, "bye", "failed")
		ok := r.count(canaryRounds, "bye", "ok")
		time.Sleep(time.Minute)
		if more := r.count(canaryRounds, "bye", "failed") - failed; more != 0 {
			w.Errorf("%g rounds failed after the detector was back", more)
		}
		if more := r.count(canaryRounds, "bye", "ok") - ok; more != 6 {
			w.Errorf("%g rounds succeeded in a minute after the detector was back, must be 6", more)
		}
		r.stop()
	})
}

func TestACanaryCountsAUserWhoLeavesBeforeTheLimitOfThePolicy(t *testing.T) {
	inWorld(t, size{partitions: 2}, func(w *world) {
		all := w.startAll()
		later := w.config.Policy
		later.OnlineTTL += 2 * time.Second
		r := w.runCanary(all["ingest"], all["api"], func(c *canary.Config) { c.Policy = func() schemas.Policy { return later } })
		time.Sleep(time.Minute)
		if early := r.count(canaryFailures, "away", "early"); early != 1 {
			w.Errorf("%g users left early, must be 1", early)
		}
		r.stop()
	})
}

// Two tenants have a canary of the same names, and one of the tenants has a policy of its own.
func TestCanariesOfTwoTenantsGoByThePoliciesOfTheirTenants(t *testing.T) {
	long(t)
	inWorld(t, size{partitions: 2, named: true}, func(w *world) {
		all := w.startAll()
		time.Sleep(5 * time.Second) // the policy of the pipeline is in force
		quick := w.config.Policy
		quick.HeartbeatInterval, quick.OnlineTTL, quick.OfflineDebounce, quick.AwayTTL = 2*time.Second, 4*time.Second, time.Second, 30*time.Second
		cluster := clusterOf(w.config)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		must.Do(w, policy.SetTenant(ctx, cluster, schemas.TenantPolicy{Tenant: "acme", Policy: &quick}, w.log))
		time.Sleep(5 * time.Second)
		runs := map[string]*canaryRun{}
		for tenant, expected := range map[string]schemas.Policy{"acme": w.config.Policy.For(&quick), "": w.config.Policy} {
			user := func(text string) canary.User {
				return canary.User{ID: cluster.Users.ID(tenant, text), Name: schemas.Name{Tenant: tenant, Text: text}}
			}
			runs[tenant] = w.runCanary(all["ingest"], all["api"], func(c *canary.Config) {
				c.User, c.Silent = user(canary.DefaultName), user(canary.DefaultName+"-silent")
				c.Policy = func() schemas.Policy { return expected }
			})
		}
		time.Sleep(12 * time.Minute)
		for tenant, silences := range map[string]float64{"acme": 23, "": 2} {
			r := runs[tenant]
			byes, ok := r.count(canaryRounds, "bye", "ok"), r.count(canaryRounds, "silence", "ok")
			if failed := r.count(canaryFailures); failed != 0 || byes != 72 || ok != silences {
				w.Errorf("tenant %q: %g steps failed, %g rounds ended with a bye and %g with silence, must be 0, 72 and %g", tenant, failed, byes, ok, silences)
			}
			r.stop()
		}
	})
}

// hanging is a transport that never answers while it hangs.
type hanging struct {
	http.RoundTripper
	hangs atomic.Bool
}

func (h *hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	if h.hangs.Load() {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return h.RoundTripper.RoundTrip(r)
}

// hangingLog is a log whose reads hang as long as transport does.
type hangingLog struct {
	canary.Log
	*hanging
}

func (h hangingLog) Bounds(ctx context.Context, partition int32) (start, end int64, err error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return 0, 0, ctx.Err()
	}
	return h.Log.Bounds(ctx, partition)
}

func TestNoHungDependencyStopsACanaryFromReporting(t *testing.T) {
	long(t)
	for _, step := range []string{"beat", "read", "replay"} {
		t.Run(step, func(t *testing.T) {
			inWorld(t, size{partitions: 2}, func(w *world) {
				all := w.startAll()
				h := &hanging{RoundTripper: w.http.Transport}
				r := w.runCanary(all["ingest"], all["api"], func(c *canary.Config) {
					switch step {
					case "beat":
						c.Ingest.Client = &http.Client{Transport: h}
					case "read": // the stream is connected by then
						c.Reads.Client = &http.Client{Transport: h}
					case "replay":
						c.Log = hangingLog{c.Log, h}
					}
				})
				time.Sleep(25 * time.Second)
				h.hangs.Store(true)
				time.Sleep(2 * time.Minute)
				if failed := r.count(canaryFailures, step, "timeout"); failed < 7 {
					w.Errorf("%g rounds of two minutes ended with a timeout of the step %s, must be at least 7", failed, step)
				}
				must.Do(w, r.Ready())
				h.hangs.Store(false)
				time.Sleep(20 * time.Second)
				ok := r.count(canaryRounds, "bye", "ok")
				time.Sleep(time.Minute)
				if more := r.count(canaryRounds, "bye", "ok") - ok; more != 6 {
					w.Errorf("%g rounds succeeded in a minute after the dependency was back, must be 6", more)
				}
				r.stop()
			})
		})
	}
}
