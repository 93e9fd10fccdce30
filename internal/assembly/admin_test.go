package assembly

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// ask asks the admin port of a process with these checks and partitions.
func ask(t *testing.T, path string, checks []check, status []stream.GroupStatus) (code int, body string) {
	t.Helper()
	routes := adminRoutes(prometheus.NewRegistry(), checks, func() []stream.GroupStatus { return status })
	recorder := httptest.NewRecorder()
	routes.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	return recorder.Code, recorder.Body.String()
}

func TestLivenessDoesNotLookAtKafka(t *testing.T) {
	t.Parallel()
	unwell := []check{{"kafka", func(context.Context) error { t.Error("a probe of liveness looked at Kafka"); return nil }}}
	for _, path := range []string{"/livez", "/healthz"} {
		if code, body := ask(t, path, unwell, nil); code != http.StatusOK || body != "ok\n" {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
}

func TestReadinessSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	checks := []check{
		{"kafka", func(context.Context) error { return nil }},
		{"detector", func(context.Context) error { return errors.New("partition 3 is being restored") }},
	}
	code, body := ask(t, "/readyz", checks, nil)
	if code != http.StatusServiceUnavailable || strings.TrimSpace(body) != "detector: partition 3 is being restored" {
		t.Errorf("%d %q", code, body)
	}
	if code, body := ask(t, "/readyz", checks[:1], nil); code != http.StatusOK || body != "ready\n" {
		t.Errorf("%d %q", code, body)
	}
}

func TestVerboseReadinessTellsHowFarEveryPartitionIs(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) schemas.Millis { return schemas.MillisOf(time.Now().Add(-d)) }
	code, body := ask(t, "/readyz?verbose", []check{{"detector", func(context.Context) error { return errors.New("is behind") }}}, []stream.GroupStatus{{
		Group: "stillhere.detector", Partitions: []stream.PartitionStatus{
			{Partition: 0, Phase: stream.Running, Offset: 10, End: 10, LogTime: ago(time.Second), Watermark: ago(time.Second)},
			{Partition: 1, Phase: stream.Running, Offset: 4, End: 10, LogTime: ago(time.Minute), Watermark: ago(time.Minute)},
			{Partition: 2, Phase: stream.Restoring},
		},
	}})
	var report readyReport
	if err := json.Unmarshal([]byte(body), &report); err != nil {
		t.Fatal(err)
	}
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
