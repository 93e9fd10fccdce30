package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"
)

// variations are the values that every test here renders the chart with.
var variations = map[string][]string{
	"defaults": nil,
	"all":      {"testdata/all.yaml"},
	"other":    {"testdata/other.yaml"},
	"password": {"testdata/password.yaml"},
	"1m":       {chartFolder + "/values-1m.yaml"},
	"20m":      {chartFolder + "/values-20m.yaml", "testdata/all.yaml"},
}

// each calls check with the objects of every variation.
func each(t *testing.T, check func(t *testing.T, all []object)) {
	for name, files := range variations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, err := render("stillhere", files...)
			if err != nil {
				t.Fatal(err)
			}
			check(t, all)
		})
	}
}

func TestHelmFindsNoFault(t *testing.T) {
	t.Parallel()
	for _, files := range variations {
		values, err := read(files)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.AllWithKubeVersion(chartFolder, values, "stillhere", nil).Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%v: %v", files, m)
			}
		}
	}
}

func TestThePlainManifestsAreTheChartsDefaults(t *testing.T) {
	t.Parallel()
	want, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	list := struct{ Resources []string }{}
	text, err := os.ReadFile(filepath.Join(plainFolder, "kustomization.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range want {
		got, err := os.ReadFile(filepath.Join(plainFolder, file))
		if err != nil || string(got) != text {
			t.Errorf("deploy/k8s/%s differs from the chart: cd deploy/helm/check && go run . (%v)", file, err)
		}
		if !slices.Contains(list.Resources, file) {
			t.Errorf("kustomization.yaml does not name %s", file)
		}
	}
	byHand := []string{"kustomization.yaml", "namespace.yaml", "secret.example.yaml"}
	files, _ := filepath.Glob(filepath.Join(plainFolder, "*.yaml"))
	for _, file := range files {
		if name := filepath.Base(file); want[name] == "" && !slices.Contains(byHand, name) {
			t.Errorf("deploy/k8s/%s is not of the chart", name)
		}
	}
}

func TestARoleWithATagOfItsOwnIsReplacedAlone(t *testing.T) {
	t.Parallel()
	before, err1 := renderValues("stillhere", nil)
	after, err2 := renderValues("stillhere", map[string]any{"roles": map[string]any{"api": map[string]any{"tag": "v2"}}})
	if err1 != nil || err2 != nil || len(before) != len(after) {
		t.Fatal(err1, err2)
	}
	for i, o := range after {
		if changed := o.Text != before[i].Text; changed != (o.String() == "Deployment stillhere-api") {
			t.Errorf("%s changes: %v", o, changed)
		}
	}
}

func TestBadValuesAreRefusedWithTheirNames(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]string{
		"replica":           "roles: {ingest: {replica: 5}}",
		"gatway":            "gatway: {enabled: true}",
		"replicas":          "roles: {detector: {replicas: 0}}",
		"brokers":           "kafka: {brokers: [kafka]}",
		"followers":         "followers: some",
		"memory":            "roles: {api: {resources: {limits: {memory: 1G}}}}",
		"grace":             "defaults: {terminationGracePeriodSeconds: 30}",
		"ONLINE_TTL":        "settings: {ONLINE_TTL: 5s}",
		"jwks":              "auth: {type: jwks}",
		"kafkaPassword":     "kafka: {sasl: {mechanism: PLAIN, user: me}}",
		"cluster":           "strimzi: {topics: {enabled: true}}",
		"parentRefs":        "gateway: {enabled: true}",
		"identityKey":       "ids: text",
		"frameKeys":         "secret: {keys: {frameKeys: ''}}",
		"ids":               "ids: names",
		"store":             "externalSecret: {enabled: true}",
		"enabled":           "strimzi: {cluster: main, users: {enabled: true}}",
		"whenUnsatisfiable": "defaults: {spread: [{topologyKey: zone, whenUnsatisfiable: Maybe}]}",
		"digest":            "image: {digest: latest}",
	} {
		var given map[string]any
		if err := yaml.Unmarshal([]byte(values), &given); err != nil {
			t.Fatal(err)
		}
		if name == "grace" {
			name = "terminationGracePeriodSeconds"
		}
		_, err := renderValues("stillhere", given)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error does not name %s: %v", values, name, err)
		}
	}
}

// The tests of the command read each rendering with the program's own parser of flags, and compare topics and users
// with the program's lists.
func TestTheProgramUnderstandsEveryRendering(t *testing.T) {
	t.Parallel()
	var folders []string
	for name, files := range variations {
		all, err := render("stillhere", files...)
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(rendered(t), name)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		var objects []json.RawMessage
		for _, o := range all {
			fmt.Fprintf(&text, "---\n%s", o.Text)
			object, err := yaml.YAMLToJSON([]byte(o.Text))
			if err != nil {
				t.Fatal(err)
			}
			objects = append(objects, object)
		}
		asJSON, err := json.Marshal(objects)
		if err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string][]byte{"all.yaml": []byte(text.String()), "all.json": asJSON} {
			if err := os.WriteFile(filepath.Join(folder, file), content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		folders = append(folders, folder)
	}
	command := exec.Command("go", "test", "-tags", "synctests", "-count=1", "./cmd/stillhere", "-run", "OfKubernetes|OfStrimzi")
	command.Dir = "../../.."
	command.Env = append(os.Environ(), "STILLHERE_MANIFESTS="+strings.Join(folders, string(filepath.ListSeparator)))
	if out, err := command.CombinedOutput(); err != nil || strings.Contains(string(out), "no tests to run") {
		t.Errorf("%v\n%s", err, out)
	}
}

// rendered is where the renderings are written: a folder that is given, for other validators, or one that goes.
func rendered(t *testing.T) string {
	if folder := os.Getenv("STILLHERE_RENDERED"); folder != "" {
		return folder
	}
	return t.TempDir()
}
