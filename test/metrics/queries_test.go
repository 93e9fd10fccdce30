package metrics

import (
	"slices"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/manifests"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestAlertsAndBoardsAskForMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	known := map[string][]string{"up": {}}
	for _, m := range everything(t) {
		known[m.name] = m.labels
		if m.kind == "histogram" || m.name == "go_gc_duration_seconds" { // a summary
			known[m.name+"_sum"], known[m.name+"_count"] = m.labels, m.labels
			known[m.name+"_bucket"] = append([]string{"le"}, m.labels...)
		}
	}
	queries := must.Get(manifests.Queries())(t)
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
}
