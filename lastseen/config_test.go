package lastseen

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	if err := Defaults().Validate(); err != nil {
		t.Error(err)
	}
}

func TestEveryFaultOfAConfigIsNamed(t *testing.T) {
	t.Parallel()
	err := Config{}.Validate()
	if err == nil {
		t.Fatal("valid")
	}
	for _, name := range []string{"sink_rows", "write_timeout", "audit_retention", "redis_retention", "stale_after", "redis_timeout",
		"read_timeout"} {
		if !strings.Contains(err.Error(), name+": ") {
			t.Errorf("%s is not named in %v", name, err)
		}
	}
}

func TestMetricsHaveNamesThatPrometheusTakes(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	m := NewMetrics(registry)
	m.SinkWrittenUpTo.WithLabelValues(Partition(3)).Set(1)
	m.Requests.WithLabelValues("GET /presence/batch", "200").Inc()
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
}
