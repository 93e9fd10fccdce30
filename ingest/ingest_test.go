package ingest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestValidateReportsAllFaultsJoined(t *testing.T) {
	t.Parallel()
	cfg := ingest.Defaults()
	cfg.AliveInterval = 3 * time.Second
	cfg.HTTP.MaxBody = 0
	cfg.Sockets.IdleTimeout = time.Second
	cfg.AllowedOrigins = []string{"https://[", "https://ok.example"}
	err := cfg.Validate()
	for _, field := range []string{"gateway.gateway_id", "gateway.partitions", "gateway.alive_interval", "ingest.http.max_body", "ingest.sockets.idle_timeout", "ingest.allowed_origins[0]"} {
		if err == nil || !strings.Contains(err.Error(), field+": ") {
			t.Errorf("%s is not named in %v", field, err)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 6 {
		t.Errorf("%d faults, want 6: %v", n, err)
	}
}

func TestOriginIsCheckedOnlyWhenThereIsOne(t *testing.T) {
	t.Parallel()
	cfg := ingest.Config{AllowedOrigins: []string{"https://app.example.com"}}
	for origin, want := range map[string]bool{
		"": true, "http://presence.example:8080": true, "https://APP.example.com": true,
		"http://app.example.com": false, "null": false, "https://app.example.com.evil": false, "::": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "http://presence.example:8080/presence/connect", nil)
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		if got := cfg.CheckOrigin(r) == nil; got != want {
			t.Errorf("%q: got %v, want %v", origin, got, want)
		}
	}
}

func TestMetricsAreRegistered(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := ingest.NewMetrics(registry)
	m.Appended("beats", 3, time.Millisecond, nil)
	families := must.Get(registry.Gather())(t)
	for _, f := range families {
		if f.GetName() == "stillhere_ingest_beats_written_total" && f.GetMetric()[0].GetCounter().GetValue() == 3 {
			return
		}
	}
	t.Fatal("three beats were not counted")
}
