package main

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/testkit/manifests"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

var updateChart = flag.Bool("update-chart", false, "write the lists of topics and rights that the chart has")

// renderings are the folders of manifests that are checked: the plain ones, and those that deploy/helm/check
// renders with other values.
func renderings() []string {
	return append([]string{filepath.Join(manifests.Root(), "deploy", "k8s")}, filepath.SplitList(os.Getenv("STILLHERE_MANIFESTS"))...)
}

// Not parallel, as parse sets the environment.
func TestEveryCommandLineOfKubernetesIsUnderstood(t *testing.T) {
	for _, folder := range renderings() {
		t.Run(filepath.Base(folder), func(t *testing.T) { checkRendering(t, folder) })
	}
}

func checkRendering(t *testing.T, folder string) {
	all := must.Get(manifests.ReadManifests(folder))(t)
	shared := map[string]string{}
	for _, o := range all {
		if o.Kind == "ConfigMap" && len(o.Data["STILLHERE_KAFKA_BROKERS"]) > 0 {
			maps.Copy(shared, o.Data)
		}
	}
	roles, read := map[string]bool{}, map[string]bool{}
	for _, o := range all {
		for _, container := range o.Spec.Template.Spec.Containers {
			grace := o.Spec.Template.Spec.TerminationGracePeriodSeconds - container.Lifecycle.PreStop.Sleep.Seconds
			if slack := time.Duration(grace)*time.Second - app.StopLimit; slack < 5*time.Second {
				t.Errorf("%s is killed %s after the program should have stopped", o.Role(), slack)
			}
			settings := map[string]string{}
			for _, e := range container.Env {
				if strings.HasPrefix(e.Name, "STILLHERE_") {
					settings[e.Name] = e.Value
				}
				if e.Value == "" { // comes from a Secret or the pod
					settings[e.Name] = map[string]string{
						"STILLHERE_INSTANCE": "stillhere-0", "STILLHERE_POSTGRES": "postgres://given@later/stillhere",
					}[e.Name]
				}
			}
			t.Run(o.Role(), func(t *testing.T) {
				checkCommand(t, o.Role(), container.Args, settings)
				both := maps.Clone(shared)
				maps.Copy(both, settings)
				chosen := must.Get(parse(t, container.Args, both))(t)
				for _, name := range known(chosen) {
					read[name] = true
				}
				checkRole(t, o.Role(), chosen)
			})
			roles[container.Args[0]] = true
		}
	}
	for _, role := range app.Roles {
		if role.Name != "all" && !roles[role.Name] {
			t.Errorf("nothing runs the role %s", role.Name)
		}
	}
	for name := range shared {
		if !read[name] {
			t.Errorf("nobody reads %s", name)
		}
	}
}

// grant is a right in the chart's list; its names get the prefix of the topics.
type grant struct {
	Type       string   `yaml:"type"`
	Name       string   `yaml:"name"`
	Prefix     bool     `yaml:"prefix,omitempty"`
	Operations []string `yaml:"operations,flow"`
	Followers  bool     `yaml:"followers,omitempty"`
	Named      bool     `yaml:"named,omitempty"`
}

// go test ./cmd/stillhere -run Chart -update-chart writes them.
func TestTheChartsListsOfTopicsAndRightsAreThoseOfTheProgram(t *testing.T) {
	type topic struct {
		Name   string            `yaml:"name"`
		Config map[string]string `yaml:"config"`
	}
	var topics []topic
	for _, spec := range schemas.Topics() {
		topics = append(topics, topic{string(spec.Topic), spec.Config})
	}
	grants := map[string][]grant{}
	for _, role := range []string{"ingest", "detector", "lastseen", "fanout", "api", "tools", "topics"} {
		needs := must.Get(app.NeedsOf(role, app.Use{Followers: true, Named: true}))(t)
		for _, n := range needs {
			g := grant{Type: "topic", Name: string(n.Topic), Operations: n.Operations, Followers: n.Followers, Named: n.Named}
			switch {
			case n.Group != "":
				g.Type, g.Name = "group", n.Group
			case n.Transactional != "":
				g.Type, g.Name, g.Prefix = "transactionalId", n.Transactional, true
			case n.Topic == "*":
				g.Name, g.Prefix = "", true
			}
			grants[role] = append(grants[role], g)
		}
	}
	for name, list := range map[string]any{"topics.yaml": topics, "grants.yaml": grants} {
		path := filepath.Join(manifests.Root(), "deploy", "helm", "stillhere", "files", name)
		text := must.Get(yaml.Marshal(list))(t)
		want := "# The program's own list: go test ./cmd/stillhere -run TheCharts -update-chart\n" + string(text)
		if *updateChart {
			must.Do(t, os.WriteFile(path, []byte(want), 0o644))
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is out of date, run: go test ./cmd/stillhere -run TheCharts -update-chart\n%v", path, err)
		}
	}
}

// What Strimzi's objects say, in the renderings that have some.
func TestTopicsAndUsersOfStrimziAreThoseOfTheProgram(t *testing.T) {
	for _, folder := range renderings() {
		all := must.Get(manifests.ReadManifests(folder))(t)
		prefix, use := schemas.DefaultPrefix, app.Use{Followers: true}
		topics := map[string]map[string]string{}
		for _, o := range all {
			if given := o.Data["STILLHERE_TOPIC_PREFIX"]; given != "" {
				prefix = given
			}
			use.Named = use.Named || o.Data["STILLHERE_IDS"] == "text"
			for _, container := range o.Spec.Template.Spec.Containers {
				for _, e := range container.Env {
					use.Followers = use.Followers && (e.Name != "STILLHERE_FOLLOWERS" || e.Value != "off")
				}
			}
			if o.Kind == "KafkaTopic" {
				topics[o.Spec.TopicName] = o.Spec.Config
			}
		}
		if len(topics) > 0 && len(topics) != len(schemas.Topics()) {
			t.Errorf("%s: the topics are %v", folder, topics)
		}
		for _, spec := range schemas.Topics() {
			for name, want := range spec.Config {
				if got := topics[spec.Topic.Name(prefix)][name]; len(topics) > 0 && got != want {
					t.Errorf("%s: %s has %s %q, not %q", folder, spec.Topic, name, got, want)
				}
			}
		}
		for _, o := range all {
			if o.Kind == "KafkaUser" {
				checkUser(t, o, use, prefix)
			}
		}
	}
}

func checkUser(t *testing.T, user manifests.Object, use app.Use, prefix string) {
	role := map[string]string{"canary": "tools"}[user.Role()]
	if role == "" {
		role = user.Role()
	}
	grants := must.Get(app.Grants(role, use, prefix))(t)
	key := func(parts ...string) string { return strings.Join(parts, " ") }
	want, got := map[string]bool{}, map[string]bool{}
	for _, g := range grants {
		kind := g.Resource
		if kind == "transactional-id" {
			kind = "transactionalId"
		}
		want[key(g.Operation, kind, g.Name, strconv.FormatBool(g.Prefixed))] = true
	}
	for _, a := range user.Spec.Authorization.ACLs {
		for _, operation := range a.Operations {
			got[key(operation, a.Resource.Type, a.Resource.Name, strconv.FormatBool(a.Resource.PatternType == "prefix"))] = true
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s may do\n%v\nand needs\n%v", user.Metadata.Name, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}
