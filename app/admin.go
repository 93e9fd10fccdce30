package app

import (
	"context"
	"encoding/json"
	"expvar"
	"fmt"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stillhere/stillhere/internal/kafka"
)

// adminRoutes are what operators look at. /livez and /healthz must not depend on
// Kafka: an outage of the broker must not restart the fleet.
func adminRoutes(gatherer prometheus.Gatherer, checks []check, status func() []kafka.GroupStatus, profiles bool) http.Handler {
	mux := http.NewServeMux()
	alive := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "/livez\n/healthz\n/readyz\n/readyz?verbose\n/metrics\n/debug/vars\n")
		if profiles {
			fmt.Fprintln(w, "/debug/pprof/")
		}
	})
	mux.HandleFunc("GET /livez", alive)
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("verbose") {
			writeReadiness(w, readiness(r.Context(), checks, status(), time.Now()))
			return
		}
		if err := allReady(r.Context(), needs(checks)); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/vars", writeVars)
	if profiles { // all but the command line
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	}
	return mux
}

// writeVars writes what package expvar has but for the command line, in which there may
// be secrets.
func writeVars(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	all := map[string]json.RawMessage{}
	expvar.Do(func(v expvar.KeyValue) {
		if v.Key != "cmdline" {
			all[v.Key] = json.RawMessage(v.Value.String())
		}
	})
	_ = json.NewEncoder(w).Encode(all) // an error means that the client disconnected
}

// buildInfo exports the version of the program.
func buildInfo(version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stillhere_build_info", Help: "1; the label is the version of the program.",
		ConstLabels: prometheus.Labels{"version": version}}, func() float64 { return 1 })
}

// readyReport is the answer to /readyz?verbose. Degraded names what the process goes
// on without.
type readyReport struct {
	Ready    bool         `json:"ready"`
	Degraded []string     `json:"degraded"`
	Checks   []readyCheck `json:"checks"`
	Groups   []readyGroup `json:"groups"`
}

// readyCheck is one part; the process is not ready when one that is needed is not.
type readyCheck struct {
	Name   string `json:"name"`
	Ready  bool   `json:"ready"`
	Needed bool   `json:"needed"`
	Error  string `json:"error,omitempty"`
}

type readyGroup struct {
	Group      string           `json:"group"`
	Partitions []readyPartition `json:"partitions"`
}

// readyPartition leaves out what is not known.
type readyPartition struct {
	Partition           int32    `json:"partition"`
	Phase               string   `json:"phase"`
	Next                int64    `json:"next_offset"`
	LagRecords          int64    `json:"lag_records"`
	LagSeconds          *float64 `json:"lag_seconds,omitempty"`
	WatermarkAgeSeconds *float64 `json:"watermark_age_seconds,omitempty"`
}

// readiness reports the checks and the progress of every partition of this process.
func readiness(ctx context.Context, checks []check, status []kafka.GroupStatus, now time.Time) readyReport {
	report := readyReport{Ready: true, Degraded: []string{}, Checks: []readyCheck{}, Groups: []readyGroup{}}
	for _, found := range runChecks(ctx, checks) {
		check := readyCheck{Name: found.name, Ready: found.err == nil, Needed: found.needed}
		if found.err != nil {
			check.Error = found.err.Error()
			report.Ready = report.Ready && !found.needed
		}
		if found.degraded() {
			report.Degraded = append(report.Degraded, found.name)
		}
		report.Checks = append(report.Checks, check)
	}
	seconds := func(d time.Duration, known bool) *float64 {
		if !known {
			return nil
		}
		s := d.Seconds()
		return &s
	}
	for _, g := range status {
		group := readyGroup{Group: g.Group, Partitions: []readyPartition{}}
		for _, p := range g.Partitions {
			group.Partitions = append(group.Partitions, readyPartition{
				Partition: p.Partition, Phase: string(p.Phase), Next: p.Offset, LagRecords: max(p.End-p.Offset, 0),
				LagSeconds: seconds(p.Lag(now)), WatermarkAgeSeconds: seconds(p.WatermarkAge(now)),
			})
		}
		report.Groups = append(report.Groups, group)
	}
	return report
}

func writeReadiness(w http.ResponseWriter, report readyReport) {
	w.Header().Set("Content-Type", "application/json")
	if !report.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(report) // an error means that the client disconnected
}
