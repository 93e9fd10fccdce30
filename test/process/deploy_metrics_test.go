//go:build unix

package process_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/test/testkit"
)

// checkAdmin checks what running roles answer on their admin ports.
func (c *containers) checkAdmin(roles []string) {
	c.Helper()
	for _, role := range roles {
		_, text := c.ask(http.MethodGet, "http://"+c.at(role, "STILLHERE_ADMIN")+"/metrics", "")
		checkMetricsPage(c.T, string(text), 9) // so many has the canary
		for _, path := range []string{"/livez", "/healthz", "/readyz", "/debug/vars"} {
			// What the load generator has sent may still be on its way, and a role behind is not ready.
			testkit.Until(c.T, role+" answers "+path, 30*time.Second, func() bool {
				code, _ := c.ask(http.MethodGet, "http://"+c.at(role, "STILLHERE_ADMIN")+path, "")
				return code == http.StatusOK
			})
		}
	}
}

var exported = regexp.MustCompile(`(?m)^# TYPE (stillhere_\w+) (\w+)$`)

// checkMetricsPage checks that the page of metrics has each one that a process exports, which are least or more.
func checkMetricsPage(t *testing.T, text string, least int) {
	t.Helper()
	page := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "reference", "metrics.md")))(t)
	all := exported.FindAllStringSubmatch(text, -1)
	if len(all) < least {
		t.Errorf("%d metrics are exported, want %d at least", len(all), least)
	}
	for _, m := range all {
		row := "| `" + m[1] + "` | " + m[2] + " |"
		if !strings.HasPrefix(m[1], "stillhere_kafka_") && !strings.Contains(string(page), row) { // these are the Kafka client's
			t.Errorf("the page of metrics lacks %s", row)
		}
	}
}
