package metrics

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/manifests"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

//go:generate go test -count=1 -run ^TestThePageHasTheMetricsOfTheProgram$ -update .

var update = flag.Bool("update", false, "write docs/reference/metrics.md instead of comparing it")

const head = `<!-- Made by "go generate ./test/metrics". Changes go where the text comes from. -->

# Metrics

Every process serves them at ` + "`/metrics`" + ` of its admin port (` + "`--admin`" + `), in the format of Prometheus. A
metric appears when what it counts can happen in that process, some only after it has happened. No label
has a user's id. The [runbook](../../deploy/RUNBOOK.md) says what to do about an
alert; alerts and boards are in [deploy/prometheus](../../deploy/prometheus) and
[deploy/grafana](../../deploy/grafana).

Besides these there are those of Go and of the process (` + "`go_*`, `process_*`" + `), and of the Kafka clients
(` + "`" + clients + "*`" + `, from franz-go's plugin kprom, with the label ` + "`client`" + `).

| metric | kind | labels | meaning |
|---|---|---|---|
`

const clients = "stillhere_kafka_"

func TestThePageHasTheMetricsOfTheProgram(t *testing.T) {
	t.Parallel()
	cell := strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`)
	var page strings.Builder
	page.WriteString(head)
	for _, m := range everything(t) {
		if strings.HasPrefix(m.name, "stillhere_") && !strings.HasPrefix(m.name, clients) {
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", m.name, m.kind, strings.Join(m.labels, ", "), cell.Replace(m.help))
		}
	}
	path := filepath.Join(manifests.Root(), "docs", "reference", "metrics.md")
	if *update {
		must.Do(t, os.WriteFile(path, []byte(page.String()), 0o644))
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != page.String() {
		t.Errorf("%s is out of date (%v): run \"go generate ./test/metrics\"", path, err)
	}
}
