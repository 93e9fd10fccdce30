//go:build unix

package process_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/test/testkit"
)

// roleOn starts a role as a process of its own.
func roleOn(t *testing.T, role string, flags ...string) *testkit.Dev {
	t.Helper()
	h := &testkit.Dev{T: t, Listen: testkit.FreePort(t), Admin: testkit.FreePort(t), Client: &http.Client{Timeout: 20 * time.Second}}
	t.Cleanup(h.Client.CloseIdleConnections)
	h.Program = testkit.Start(t, testkit.Binary(t, "stillhere"), nil, append([]string{role, "--instance", role, "--listen", h.Listen, "--admin", h.Admin}, flags...)...)
	return h
}

// readiness is what /readyz and /readyz?verbose answer.
func readiness(h *testkit.Dev) (status int, degraded []string) {
	h.Helper()
	for _, path := range []string{"/readyz", "/readyz?verbose"} {
		answer, err := h.Client.Get("http://" + h.Admin + path)
		if err != nil {
			return 0, nil
		}
		status = max(status, answer.StatusCode)
		var report struct{ Degraded []string }
		if strings.Contains(path, "verbose") {
			if err := json.NewDecoder(answer.Body).Decode(&report); err != nil {
				h.Errorf("%s: %v", path, err)
			}
			degraded = report.Degraded
		}
		answer.Body.Close()
	}
	slices.Sort(degraded)
	return status, degraded
}

func TestRolesAreReadyWithoutWhatTheirJobDoesNotNeed(t *testing.T) {
	testkit.Binary(t, "stillhere")
	t.Parallel()
	cluster, err := embedded.StartKafka(embedded.KafkaConfig{Log: slog.New(slog.DiscardHandler)})
	must.Do(t, err)
	closeKafka := sync.OnceFunc(cluster.Close)
	t.Cleanup(closeKafka)
	_, err = admin.ApplyTopics(t.Context(), kafka.Config{Brokers: cluster.Addrs()}, testkit.DevPartitions, 1)
	must.Do(t, err)
	redis := startRedis(t, "")
	// Postgres is away from the start.
	flags := []string{"--kafka-brokers", cluster.Addrs()[0], "--redis", redis.address, "--postgres", "postgres://nobody@" + testkit.FreePort(t) + "/nothing"}
	in, api := roleOn(t, "ingest", flags...), roleOn(t, "api", flags...)
	is := func(what string, h *testkit.Dev, status int, degraded ...string) {
		t.Helper()
		var last []string
		if !testkit.Within(30*time.Second, func() bool {
			got, without := readiness(h)
			last = without
			return got == status && (status != http.StatusOK || slices.Equal(without, degraded))
		}) {
			t.Errorf("%s: want %d without %v, is without %v", what, status, degraded, last)
		}
	}
	is("ingest without Postgres", in, http.StatusOK, "store")
	is("api without Postgres", api, http.StatusOK, "follower graph", "store")
	testkit.Until(t, "the metric reports it", 20*time.Second, func() bool {
		return in.Metric(`stillhere_degraded{what="store"}`) == 1 && in.Metric(`stillhere_degraded{what="redis"}`) == 0
	})

	redis.Kill()
	is("ingest without both", in, http.StatusOK, "redis", "store")
	is("api without both", api, http.StatusServiceUnavailable)
	for range 20 {
		begun := time.Now()
		in.MustSend(testkit.Beat{User: 1, Device: 7})
		if status, _ := readiness(in); status != http.StatusOK {
			t.Errorf("ingest answers %d", status)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("a beat and a question took %s", took)
		}
	}
	testkit.Until(t, "the metric and the log report it", 20*time.Second, func() bool {
		return in.Metric(`stillhere_degraded{what="redis"}`) == 1 && strings.Contains(in.Err.String(), `"msg":"redis does not answer`)
	})

	startRedis(t, redis.address)
	is("ingest with Redis again", in, http.StatusOK, "store")
	is("api with Redis again", api, http.StatusOK, "follower graph", "store")
	closeKafka()
	is("ingest without Kafka", in, http.StatusServiceUnavailable)
	is("api without Kafka", api, http.StatusOK, "follower graph", "kafka", "store")
}
