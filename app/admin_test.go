package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/outage"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// ask asks the admin port of a process with these checks and partitions.
func ask(t *testing.T, path string, checks []check, status []kafka.GroupStatus) (code int, body string) {
	t.Helper()
	routes := adminRoutes(prometheus.NewRegistry(), checks, func() []kafka.GroupStatus { return status }, false)
	recorder := httptest.NewRecorder()
	routes.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	return recorder.Code, recorder.Body.String()
}

func TestLivenessDoesNotLookAtKafka(t *testing.T) {
	t.Parallel()
	unwell := []check{{name: "kafka", ready: func(context.Context) error { t.Error("a probe of liveness looked at Kafka"); return nil }}}
	for _, path := range []string{"/livez", "/healthz"} {
		if code, body := ask(t, path, unwell, nil); code != http.StatusOK || body != "ok\n" {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
}

func TestReadinessSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	checks := []check{
		{name: "kafka", ready: func(context.Context) error { return nil }},
		{name: "detector", ready: func(context.Context) error { return errors.New("partition 3 is being restored") }},
	}
	code, body := ask(t, "/readyz", checks, nil)
	if code != http.StatusServiceUnavailable || strings.TrimSpace(body) != "detector: partition 3 is being restored" {
		t.Errorf("%d %q", code, body)
	}
	if code, body := ask(t, "/readyz", checks[:1], nil); code != http.StatusOK || body != "ready\n" {
		t.Errorf("%d %q", code, body)
	}
}

func TestVerboseReadinessReportsHowFarEveryPartitionIs(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) schemas.Millis { return schemas.MillisOf(time.Now().Add(-d)) }
	code, body := ask(t, "/readyz?verbose", []check{{name: "detector", ready: func(context.Context) error { return errors.New("is behind") }}}, []kafka.GroupStatus{{
		Group: "stillhere.detector", Partitions: []kafka.PartitionStatus{
			{Partition: 0, Phase: kafka.Running, Offset: 10, End: 10, LogTime: ago(time.Second), Watermark: ago(time.Second)},
			{Partition: 1, Phase: kafka.Running, Offset: 4, End: 10, LogTime: ago(time.Minute), Watermark: ago(time.Minute)},
			{Partition: 2, Phase: kafka.Restoring},
		},
	}})
	var report readyReport
	must.Do(t, json.Unmarshal([]byte(body), &report))
	if code != http.StatusServiceUnavailable || report.Ready || report.Checks[0].Error != "is behind" {
		t.Errorf("%d: %+v", code, report)
	}
	p := report.Groups[0].Partitions
	if *p[0].LagSeconds != 0 || *p[0].WatermarkAgeSeconds < 0.9 || *p[0].WatermarkAgeSeconds > 30 {
		t.Errorf("the partition that has caught up: %s", body)
	}
	if p[1].LagRecords != 6 || *p[1].LagSeconds < 59 || *p[1].WatermarkAgeSeconds < 59 {
		t.Errorf("the partition that is behind: %s", body)
	}
	if p[2].Phase != "restoring" || p[2].LagSeconds != nil || p[2].WatermarkAgeSeconds != nil {
		t.Errorf("the partition that is being restored: %s", body)
	}
}

func TestAProcessIsReadyWithoutWhatItsJobDoesNotNeedAndSaysThatItIsDegraded(t *testing.T) {
	t.Parallel()
	away := func(context.Context) error { return errors.New("is away") }
	here := func(context.Context) error { return nil }
	loop := check{name: "sink", ready: away, rank: atFirst, passed: new(atomic.Bool)}
	checks := []check{{name: "kafka", ready: here}, {name: "redis", ready: away, rank: wanted}, loop}
	if code, body := ask(t, "/readyz", checks, nil); code != http.StatusServiceUnavailable || strings.TrimSpace(body) != "sink: is away" {
		t.Errorf("before the sink has caught up: %d %q", code, body)
	}
	checks[2].ready = here
	if code, body := ask(t, "/readyz", checks, nil); code != http.StatusOK {
		t.Errorf("without Redis: %d %q", code, body)
	}
	checks[2].ready = away
	code, body := ask(t, "/readyz?verbose", checks, nil)
	var report readyReport
	must.Do(t, json.Unmarshal([]byte(body), &report))
	if code != http.StatusOK || !report.Ready || !slices.Equal(report.Degraded, []string{"redis", "sink"}) || report.Checks[1].Error != "is away" {
		t.Errorf("without Redis and the sink, once it had caught up: %d %s", code, body)
	}
	checks[0].ready = away
	if code, _ := ask(t, "/readyz", checks, nil); code != http.StatusServiceUnavailable {
		t.Errorf("without Kafka: %d", code)
	}
}

func TestEveryCheckThatARoleNamesExists(t *testing.T) {
	t.Parallel()
	known := []string{"kafka", "auth", "detector", "redis", "store", "sink", "projector", "publisher", "follower planner", "follower worker", "follower graph", "reads"}
	for _, r := range Roles {
		for _, name := range append(slices.Clone(r.needs), r.first...) {
			if !slices.Contains(known, name) {
				t.Errorf("the role %s names a check %q", r.Name, name)
			}
		}
	}
}

func TestACheckThatHangsFailsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		inTime := func(ctx context.Context) error { return ctx.Err() }
		found := runChecks(t.Context(), []check{{name: "a", ready: hangs}, {name: "b", ready: inTime}})
		if found[0].err == nil || found[1].err != nil {
			t.Errorf("the one that hangs: %v; the other: %v", found[0].err, found[1].err)
		}
	})
}

func TestWhatAProcessGoesOnWithoutIsAMetricAndALineInTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		checks := []check{{name: "kafka", ready: func(context.Context) error { return nil }}, {name: "redis", rank: wanted, ready: func(context.Context) error {
			if away.Load() {
				return errors.New("is away")
			}
			return nil
		}}}
		registry, said := prometheus.NewRegistry(), new(bytes.Buffer)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- watchHealth(ctx, checks, nil, outage.New(slog.DiscardHandler), registry, slog.New(slog.NewTextHandler(said, nil)))
		}()
		for _, want := range []float64{0, 1, 1, 0, 0} { // the log waits for a second look
			away.Store(want == 1)
			<-time.After(healthInterval + time.Second)
			synctest.Wait()
			expected := fmt.Sprintf("# HELP stillhere_degraded 1 while the process is ready, but a part is unreachable or lags behind; the label names the part.\n"+
				"# TYPE stillhere_degraded gauge\nstillhere_degraded{what=\"redis\"} %g\n", want)
			if err := testutil.GatherAndCompare(registry, strings.NewReader(expected)); err != nil {
				t.Error(err)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if strings.Count(said.String(), "\n") != 2 || strings.Count(said.String(), "what=redis") != 2 {
			t.Errorf("the log says:\n%s", said)
		}
	})
}
