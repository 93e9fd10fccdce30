//go:build unix

package process_test

import (
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/detector"
	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/internal/testkit/manifests"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/schemas"
)

// metrics are names, and the labels of each.
type metrics map[string][]string

func (m metrics) add(name string, labels ...string) {
	m[name] = slices.Compact(slices.Sorted(slices.Values(append(m[name], labels...))))
}

// declaring is a registry that notes what is declared, also what has no series
// before something happens.
type declaring struct{ metrics }

var (
	declared  = regexp.MustCompile(`fqName: "([^"]*)"`)
	constants = regexp.MustCompile(`constLabels: \{([^}]*)\}`)
	variables = regexp.MustCompile(`variableLabels: \{([^}]*)\}`)
)

func (d declaring) Register(c prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc)
	go func() { defer close(descriptions); c.Describe(descriptions) }()
	for description := range descriptions {
		text := description.String()
		name := declared.FindStringSubmatch(text)[1]
		labels := []string{}
		for _, list := range [][]string{constants.FindStringSubmatch(text), variables.FindStringSubmatch(text)} {
			for label := range strings.SplitSeq(list[1], ",") {
				if label, _, _ = strings.Cut(label, "="); label != "" {
					labels = append(labels, label)
				}
			}
		}
		d.add(name, labels...)
		for _, suffix := range []string{"_bucket", "_sum", "_count"} { // should it be a histogram
			d.add(name+suffix, append(labels, "le")...)
		}
	}
	return nil
}

func (d declaring) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = d.Register(c) // it cannot fail
	}
}

func (d declaring) Unregister(prometheus.Collector) bool { return true }

// checkQueries holds what alerts and boards ask for against what running roles
// export and what the services declare.
func (c *containers) checkQueries(roles []string) {
	c.Helper()
	known := metrics{"up": {}}
	registry := declaring{known}
	cluster := kafka.NewMetrics(registry)
	producer, err := kafka.NewProducer(kafka.Config{Brokers: []string{"127.0.0.1:1"}}, slog.New(slog.DiscardHandler), cluster)
	if err != nil {
		c.Fatal(err)
	}
	if err := producer.Close(c.Context()); err != nil {
		c.Fatal(err)
	}
	ingest.NewMetrics(registry)
	detector.NewMetrics(registry)
	lastseen.NewMetrics(registry)
	fanout.NewMetrics(registry)
	expand.NewMetrics(registry)
	delivery.NewMetrics(registry)
	registry.MustRegister(tenants.NewAccounts(tenants.NewDirectory(nil, schemas.DefaultQuotas, nil))) // roles have it with --ids text
	series, label := regexp.MustCompile(`(?m)^([a-z_0-9]+)(?:\{(.*)\})? \S+$`), regexp.MustCompile(`([a-z_]+)="`)
	for _, role := range roles {
		code, text := c.ask(http.MethodGet, "http://"+c.at(role, "STILLHERE_ADMIN")+"/metrics", "")
		found := series.FindAllStringSubmatch(string(text), -1)
		if code != http.StatusOK || len(found) < 50 {
			c.Fatalf("%s exports %d series (%d)", role, len(found), code)
		}
		for _, m := range found {
			labels := []string{}
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				labels = append(labels, l[1])
			}
			known.add(m[1], labels...)
		}
		for _, path := range []string{"/livez", "/healthz", "/readyz", "/debug/vars"} {
			// What the load generator has sent may still be on its way, and a role behind is not ready.
			testkit.Until(c.T, role+" answers "+path, 30*time.Second, func() bool {
				code, _ := c.ask(http.MethodGet, "http://"+c.at(role, "STILLHERE_ADMIN")+path, "")
				return code == http.StatusOK
			})
		}
	}
	checkQueries(c.T, known)
}

func checkQueries(t *testing.T, known metrics) {
	t.Helper()
	queries, err := manifests.Queries()
	if err != nil {
		t.Fatal(err)
	}
	scrape := []string{"job", "instance", "role"} // what scraping adds
	for _, query := range queries {
		asked := query.Series()
		if len(asked) == 0 {
			t.Errorf("%s: asks for nothing: %s", query.Where, query.Expr)
		}
		has := slices.Clone(scrape)
		for _, s := range asked {
			labels, there := known[s.Metric]
			has = append(has, labels...)
			if !there {
				t.Errorf("%s: the program has no metric %s", query.Where, s.Metric)
				continue
			}
			for _, l := range s.Labels {
				if !slices.Contains(labels, l) && !slices.Contains(scrape, l) {
					t.Errorf("%s: %s has no label %s but %v", query.Where, s.Metric, l, labels)
				}
			}
		}
		for _, l := range query.Groups() {
			if !slices.Contains(has, l) {
				t.Errorf("%s: groups by %s, which nothing of it has: %s", query.Where, l, query.Expr)
			}
		}
	}
	if t.Failed() {
		t.Logf("there are: %v", slices.Sorted(maps.Keys(known)))
	}
}
