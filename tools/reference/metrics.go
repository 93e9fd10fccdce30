package reference

import (
	"cmp"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Metric is one that the program declares.
type Metric struct {
	Name, Kind, Help string
	Labels           []string
}

// wrapped are the registries that add to what a file declares, which the file's literals do not show.
var wrapped = map[string]struct{ prefix, label string }{
	"app/connections.go": {prefix: "stillhere_http_"},
	"app/pools.go":       {label: "pool"},
}

// Metrics reads the metrics that the source below root declares, by name. It is an error if one
// is declared in a form that this package cannot read.
func Metrics(root string) ([]Metric, error) {
	var all []Metric
	for _, folder := range []string{"app", "cmd", "detector", "fanout", "ingest", "internal", "lastseen", "tools"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			found, err := metricsOf(path)
			for _, m := range found {
				around := wrapped[filepath.ToSlash(name)]
				m.Name = around.prefix + m.Name
				if around.label != "" {
					m.Labels = append(m.Labels, around.label)
				}
				all = append(all, m)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(all, func(a, b Metric) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(all, func(a, b Metric) bool { return a.Name == b.Name }), nil
}

// MetricsPage is the page of the metrics.
func MetricsPage(root string) (string, error) {
	all, err := Metrics(root)
	if err != nil {
		return "", err
	}
	var page strings.Builder
	page.WriteString(made + `# Metrics

Every process serves them at ` + "`/metrics`" + ` of its admin port (` + "`--admin`" + `), in the format of Prometheus. A
metric appears when what it counts can happen in that process, some only after it has happened. No label
has a user's id. The [runbook](../../deploy/RUNBOOK.md) says what to do about an
alert; alerts and boards are in [deploy/prometheus](../../deploy/prometheus) and
[deploy/grafana](../../deploy/grafana).

Besides these there are those of Go and of the process (` + "`go_*`, `process_*`" + `), and of the Kafka clients
(` + "`stillhere_kafka_*`" + `, from franz-go's plugin kprom, with the label ` + "`client`" + `).

| metric | kind | labels | meaning |
|---|---|---|---|
`)
	for _, m := range all {
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, strings.Join(m.Labels, ", "), cell(m.Help))
	}
	return page.String(), nil
}
