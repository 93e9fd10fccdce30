package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestEveryBoardTakesItsFiguresFromTheChosenPrometheus(t *testing.T) {
	t.Parallel()
	boards := must.Get(ReadDashboards())(t)
	if len(boards) < 3 {
		t.Fatalf("there are only %d boards", len(boards))
	}
	uids := map[string]string{}
	for _, board := range boards {
		if other := uids[board.UID]; board.UID == "" || other != "" {
			t.Errorf("%s and %s have the same uid %q", board.File, other, board.UID)
		}
		uids[board.UID] = board.File
		if list := board.Templating.List; len(list) == 0 || list[0].Name != "datasource" || list[0].Type != "datasource" {
			t.Errorf("%s: nobody can choose the Prometheus", board.File)
		}
		ids := map[int]bool{}
		for _, panel := range board.Panels {
			if ids[panel.ID] {
				t.Errorf("%s: two panels have the id %d", board.File, panel.ID)
			}
			ids[panel.ID] = true
			if panel.Type == "row" {
				continue
			}
			if panel.Title == "" || len(panel.Targets) == 0 || panel.GridPos.X+panel.GridPos.W > 24 {
				t.Errorf("%s: panel %d (%q) shows nothing, or lies outside", board.File, panel.ID, panel.Title)
			}
			for _, target := range panel.Targets {
				if target.Expr == "" || target.Datasource.UID != "${datasource}" || panel.Datasource.UID != "${datasource}" {
					t.Errorf("%s: %s: asks %+v of %q", board.File, panel.Title, target, panel.Datasource.UID)
				}
			}
		}
	}
}

func TestGrafanaFindsTheBoardsAndPrometheus(t *testing.T) {
	t.Parallel()
	grafana := compose(t).Services["grafana"]
	var provider struct {
		Providers []struct {
			Options struct {
				Path string `yaml:"path"`
			} `yaml:"options"`
		} `yaml:"providers"`
	}
	must.Do(t, ReadYAML(&provider, "deploy", "grafana", "provisioning", "dashboards", "stillhere.yml"))
	path := provider.Providers[0].Options.Path
	if !mounts(t, grafana, "deploy/grafana/dashboards", path) || !mounts(t, grafana, "deploy/grafana/provisioning", "/etc/grafana/provisioning") {
		t.Errorf("Grafana looks for boards in %s; mounted are %v", path, grafana.Volumes)
	}
	home, inside := strings.CutPrefix(Value(grafana, "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"), path+"/")
	boards := must.Get(ReadDashboards())(t)
	if !inside || !slices.ContainsFunc(boards, func(b Dashboard) bool { return b.File == home }) {
		t.Errorf("the home board %q is not there", home)
	}
	var sources struct {
		Datasources []struct {
			UID, Type, URL string
		} `yaml:"datasources"`
	}
	must.Do(t, ReadYAML(&sources, "deploy", "grafana", "provisioning", "datasources", "prometheus.yml"))
	if s := sources.Datasources[0]; s.Type != "prometheus" || s.URL != "http://prometheus:9090" {
		t.Errorf("Grafana asks %+v", s)
	}
}

func TestEveryAlertSaysHowUrgentItIsAndWhatIsWrong(t *testing.T) {
	t.Parallel()
	rules := must.Get(ReadRules())(t)
	runbook := must.Get(os.ReadFile(filepath.Join(Root(), "deploy", "RUNBOOK.md")))(t)
	seen := map[string]bool{}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			if seen[rule.Alert] || !strings.HasPrefix(rule.Alert, "Stillhere") {
				t.Errorf("%q is there twice, or does not say whose it is", rule.Alert)
			}
			seen[rule.Alert] = true
			if s := rule.Labels["severity"]; s != "page" && s != "ticket" {
				t.Errorf("%s: severity %q", rule.Alert, s)
			}
			if !strings.HasSuffix(rule.Annotations["summary"], ".") {
				t.Errorf("%s: %q is not a sentence", rule.Alert, rule.Annotations["summary"])
			}
			if rule.For == "" {
				t.Errorf("%s: does not say for how long (for: 0s fires at once)", rule.Alert)
			}
			entry := strings.ToLower(rule.Alert)
			if url := rule.Annotations["runbook_url"]; !strings.HasSuffix(url, "/deploy/RUNBOOK.md#"+entry) ||
				!strings.Contains(string(runbook), `<a id="`+entry+`"></a>`) {
				t.Errorf("%s: runbook_url is %q, and must end in #%s, which is in deploy/RUNBOOK.md", rule.Alert, url, entry)
			}
		}
	}
	// Each is tried by promtool.
	var tests struct {
		Tests []struct {
			Cases []struct {
				Alert    string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	must.Do(t, ReadYAML(&tests, "deploy", "prometheus", "tests", "stillhere.yml"))
	for _, test := range tests.Tests {
		for _, c := range test.Cases {
			if len(c.Expected) > 0 {
				delete(seen, c.Alert)
			}
		}
	}
	for alert := range seen {
		t.Errorf("no test sees %s fire", alert)
	}
}

func TestPromtoolAcceptsTheConfigurationAndItsTestsPass(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil || os.Getenv("STILLHERE_FULL") == "" {
		t.Skip("takes half a minute, with STILLHERE_FULL=1 and promtool, of Debian's package prometheus")
	}
	folder := filepath.Join(Root(), "deploy", "prometheus")
	for _, arguments := range [][]string{
		{"check", "config", filepath.Join(folder, "prometheus.yml")},
		{"check", "rules", filepath.Join(folder, "rules", "stillhere.yml")},
		{"test", "rules", filepath.Join(folder, "tests", "stillhere.yml")},
	} {
		if out, err := exec.Command(promtool, arguments...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", arguments[:2], err, out)
		}
	}
}
