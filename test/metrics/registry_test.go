package metrics

import (
	"cmp"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/detector"
	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/graphgate"
	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/internal/reload"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/canary"
)

// metric is one that the program registers.
type metric struct {
	name, kind, help string
	labels           []string
}

// noting is a registry that notes what is registered, also metrics without a series.
type noting struct{ all []metric }

// everything is all that the program registers, by name.
func everything(t *testing.T) []metric {
	t.Helper()
	registry, quiet := &noting{}, slog.New(slog.DiscardHandler)
	check := func(err error) {
		t.Helper()
		must.Do(t, err)
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	producer, err := kafka.NewProducer(kafka.Config{Brokers: []string{"127.0.0.1:1"}}, quiet, kafka.NewMetrics(registry))
	check(err)
	check(producer.Close(t.Context()))
	app.RegisterMetrics(registry)
	ingest.NewMetrics(registry)
	detector.NewMetrics(registry)
	lastseen.NewMetrics(registry)
	fanout.NewMetrics(registry)
	expand.NewMetrics(registry)
	delivery.NewMetrics(registry)
	graph.NewApplier(nil, "", registry)
	graphgate.New(graphgate.Config{}, graphgate.Dependencies{Registry: registry})
	registry.MustRegister(tenants.NewAccounts(tenants.NewDirectory(nil, schemas.DefaultQuotas, nil)))
	_, err = auth.New(t.Context(), auth.Config{Secret: keys.Secret{Value: strings.Repeat("x", 32)}}, registry, quiet)
	check(err)
	reload.NewMetrics(registry)
	config := pgstore.Defaults()
	config.URL = "postgres://127.0.0.1:1/none"
	store, err := pgstore.Open(t.Context(), config)
	check(err)
	store.Register(registry)
	store.Close()
	nowhere := client.HTTP{URL: "http://127.0.0.1:1"}
	_, err = canary.New(canary.Config{Ingest: nowhere, Reads: nowhere, User: canary.User{ID: 1}, Silent: canary.User{ID: 2},
		Interval: time.Minute, Timeout: time.Second, Policy: func() schemas.Policy { return schemas.Policy{} }, Registry: registry})
	check(err)
	slices.SortStableFunc(registry.all, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
	return slices.CompactFunc(registry.all, func(a, b metric) bool { return a.name == b.name })
}

var described = regexp.MustCompile(`^Desc\{fqName: (".*?"), help: (".*"), unit: "[a-z]*", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

func (n *noting) Register(c prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc)
	go func() { defer close(descriptions); c.Describe(descriptions) }()
	kind := kindOf(c)
	for d := range descriptions {
		parts := described.FindStringSubmatch(d.String())
		if parts == nil {
			return fmt.Errorf("the form of a description is new: %s", d)
		}
		m := metric{kind: kind}
		var err error
		if m.name, err = strconv.Unquote(parts[1]); err != nil {
			return err
		}
		if m.help, err = strconv.Unquote(parts[2]); err != nil {
			return err
		}
		for label := range strings.SplitSeq(parts[3]+","+parts[4], ",") {
			if label, _, _ = strings.Cut(label, "="); label != "" {
				m.labels = append(m.labels, label)
			}
		}
		if m.kind == "" && strings.HasSuffix(m.name, "_total") {
			m.kind = "counter"
		}
		m.kind = cmp.Or(m.kind, "gauge")
		n.all = append(n.all, m)
	}
	return nil
}

// kindOf is the type of a collector's metrics; "" if it has several, and those of a collector of our own.
func kindOf(c prometheus.Collector) string {
	switch c := c.(type) {
	case *prometheus.CounterVec:
		return "counter"
	case *prometheus.GaugeVec:
		return "gauge"
	case *prometheus.HistogramVec, prometheus.Histogram:
		return "histogram"
	case prometheus.Metric:
		var written dto.Metric
		if c.Write(&written) == nil && written.Counter != nil {
			return "counter"
		}
	}
	return ""
}

func (n *noting) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := n.Register(c); err != nil {
			panic(err)
		}
	}
}

func (n *noting) Unregister(prometheus.Collector) bool { return true }
