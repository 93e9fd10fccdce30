package manifests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Query is an expression of an alert or a panel.
type Query struct {
	Where string // file and title
	Expr  string
}

// Rules are the alerts.
type Rules struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []struct {
			Alert       string            `yaml:"alert"`
			Expr        string            `yaml:"expr"`
			For         string            `yaml:"for"`
			Labels      map[string]string `yaml:"labels"`
			Annotations map[string]string `yaml:"annotations"`
		} `yaml:"rules"`
	} `yaml:"groups"`
}

// ReadRules reads the alerts.
func ReadRules() (rules Rules, err error) {
	return rules, ReadYAML(&rules, "deploy", "prometheus", "rules", "stillhere.yml")
}

// ReadYAML reads a file of the repository.
func ReadYAML(into any, path ...string) error {
	text, err := os.ReadFile(filepath.Join(Root(), filepath.Join(path...)))
	if err != nil {
		return err
	}
	return yaml.Unmarshal(text, into)
}

// Dashboard is a board of Grafana.
type Dashboard struct {
	File       string
	UID        string `json:"uid"`
	Title      string `json:"title"`
	Templating struct {
		List []struct {
			Name string `json:"name"`
			Type string `json:"type"`
		} `json:"list"`
	} `json:"templating"`
	Panels []Panel `json:"panels"`
}

// Panel is one of its panels.
type Panel struct {
	ID         int        `json:"id"`
	Type       string     `json:"type"`
	Title      string     `json:"title"`
	Datasource Datasource `json:"datasource"`
	GridPos    struct{ H, W, X, Y int }
	Targets    []struct {
		Expr       string     `json:"expr"`
		Datasource Datasource `json:"datasource"`
	} `json:"targets"`
}

// Datasource is where a panel's figures come from.
type Datasource struct {
	UID string `json:"uid"`
}

// ReadDashboards reads the boards of deploy/grafana.
func ReadDashboards() ([]Dashboard, error) {
	files, err := filepath.Glob(filepath.Join(Root(), "deploy", "grafana", "dashboards", "*.json"))
	if err != nil {
		return nil, err
	}
	var boards []Dashboard
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		board := Dashboard{File: filepath.Base(file)}
		if err := json.Unmarshal(text, &board); err != nil {
			return nil, err
		}
		boards = append(boards, board)
	}
	return boards, nil
}

// Queries are the expressions of all alerts and panels.
func Queries() ([]Query, error) {
	rules, err := ReadRules()
	if err != nil {
		return nil, err
	}
	var all []Query
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			all = append(all, Query{"alert " + rule.Alert, rule.Expr})
		}
	}
	boards, err := ReadDashboards()
	if err != nil {
		return nil, err
	}
	for _, board := range boards {
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				all = append(all, Query{board.File + ": " + panel.Title, target.Expr})
			}
		}
	}
	return all, nil
}

// Series is a metric that a query names, with the labels that it asks for.
type Series struct {
	Metric string
	Labels []string
}

var (
	series  = regexp.MustCompile(`\b((?:stillhere|go|process)_[a-z0-9_]+|up\b)(?:\{([^}]*)\})?`)
	matcher = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	grouped = regexp.MustCompile(`\b(?:by|on|without|ignoring) \(([^)]*)\)`)
)

// Groups are the labels by which a query groups and matches.
func (q Query) Groups() []string {
	var groups []string
	for _, m := range grouped.FindAllStringSubmatch(q.Expr, -1) {
		for label := range strings.SplitSeq(m[1], ",") {
			groups = append(groups, strings.TrimSpace(label))
		}
	}
	return groups
}

// Series finds the metrics of a query.
func (q Query) Series() []Series {
	var all []Series
	for _, m := range series.FindAllStringSubmatch(q.Expr, -1) {
		found := Series{Metric: m[1]}
		for _, label := range matcher.FindAllStringSubmatch(m[2], -1) {
			found.Labels = append(found.Labels, label[1])
		}
		all = append(all, found)
	}
	return all
}
