package reference

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// metricsIn reads the metrics of a file with this body.
func metricsIn(t *testing.T, body string) ([]Metric, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "metrics.go")
	if err := os.WriteFile(path, []byte("package p\n"+body), 0o600); err != nil {
		t.Fatal(err)
	}
	return metricsOf(path)
}

func TestMetricsOfHelpersAreReadWithTheirLabels(t *testing.T) {
	t.Parallel()
	all, err := metricsIn(t, `const prefix = "a_"
func direct() {
	f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "n", Subsystem: "s", Name: "g", Help: "G" + "."}, []string{"x"})
}
func helpers() {
	counter := func(name, help string, labels ...string) C {
		return f.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, append([]string{"group"}, labels...))
	}
	opts := func(name string) H { return prometheus.HistogramOpts{Name: name, Help: "H."} }
	counter("c_total", "C.", "y", "z")
	f.NewHistogramVec(opts("h_seconds"), []string{"w"})
}`)
	if err != nil {
		t.Fatal(err)
	}
	want := []Metric{{"n_s_g", "gauge", "G.", []string{"x"}}, {"a_c_total", "counter", "C.", []string{"group", "y", "z"}},
		{"h_seconds", "histogram", "H.", []string{"w"}}}
	if !slices.EqualFunc(all, want, func(a, b Metric) bool {
		return a.Name == b.Name && a.Kind == b.Kind && a.Help == b.Help && slices.Equal(a.Labels, b.Labels)
	}) {
		t.Errorf("read %+v, want %+v", all, want)
	}
}

func TestAMetricWhoseNameCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := metricsIn(t, `var g = f.NewGauge(prometheus.GaugeOpts{Name: name(), Help: "G."})`); err == nil {
		t.Error("it is left out")
	}
}
