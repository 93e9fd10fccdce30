package manifests

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func manifests(t *testing.T) []Manifest {
	t.Helper()
	all, err := ReadManifests()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func find(t *testing.T, all []Manifest, kind, name string) Manifest {
	t.Helper()
	i := slices.IndexFunc(all, func(m Manifest) bool { return m.Kind == kind && m.Metadata.Name == name })
	if i < 0 {
		t.Fatalf("there is no %s %s", kind, name)
	}
	return all[i]
}

func TestEveryPodMayDoOnlyWhatItMust(t *testing.T) {
	t.Parallel()
	for _, m := range manifests(t) {
		pod := m.Spec.Template.Spec
		if len(pod.Containers) == 0 {
			continue
		}
		name := m.File + " " + m.Metadata.Name
		if pod.Security["runAsNonRoot"] != true || pod.Security["runAsUser"] != 65532 || pod.Security["seccompProfile"] == nil {
			t.Errorf("%s: runs as %v", name, pod.Security)
		}
		if pod.ServiceToken == nil || *pod.ServiceToken || pod.ServiceLinks == nil || *pod.ServiceLinks {
			t.Errorf("%s: is given a token or addresses that it does not need", name)
		}
		if pod.GracePeriod <= 40 {
			t.Errorf("%s: is killed after %d s; the program takes up to 40 s to finish what it has in hand", name, pod.GracePeriod)
		}
		for _, c := range pod.Containers {
			s := c.Security
			if s.Escalation == nil || *s.Escalation || !s.ReadOnly || !slices.Equal(s.Capabilities["drop"], []string{"ALL"}) {
				t.Errorf("%s: keeps privileges: %+v", name, s)
			}
			if c.Image != "stillhere:dev" {
				t.Errorf("%s: the image is %q; kustomization.yaml replaces stillhere:dev", name, c.Image)
			}
			if c.Resources.Requests["cpu"] == "" || c.Resources.Requests["memory"] == "" || c.Resources.Limits["memory"] == "" {
				t.Errorf("%s: has no requests and limits: %+v", name, c.Resources)
			}
			for _, e := range c.Env {
				if e.Name == "GOMEMLIMIT" && mebibytes(t, e.Value) > mebibytes(t, c.Resources.Limits["memory"])*9/10 {
					t.Errorf("%s: GOMEMLIMIT %s leaves nothing of %s for what is not heap", name, e.Value, c.Resources.Limits["memory"])
				}
			}
		}
	}
}

func TestEveryObjectFindsItsPods(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	for _, m := range all {
		switch m.Kind {
		case "Deployment", "StatefulSet":
			labels := m.Spec.Template.Metadata.Labels
			want := map[string]any{"matchLabels": map[string]any{"app": labels["app"], "role": labels["role"]}}
			if !reflect.DeepEqual(m.Spec.Selector, want) || labels["role"] != m.Metadata.Name {
				t.Errorf("%s: selects %v, its pods have %v", m.File, m.Spec.Selector, labels)
			}
			service, budget := find(t, all, "Service", m.Metadata.Name), find(t, all, "PodDisruptionBudget", m.Metadata.Name)
			if service.Spec.Selector["role"] != m.Metadata.Name || !reflect.DeepEqual(budget.Spec.Selector, want) {
				t.Errorf("%s: service %v or budget %v selects others", m.File, service.Spec.Selector, budget.Spec.Selector)
			}
			container := m.Spec.Template.Spec.Containers[0]
			for _, port := range service.Spec.Ports {
				if !slices.ContainsFunc(container.Ports, func(p struct {
					Name string `yaml:"name"`
					Port int    `yaml:"containerPort"`
				}) bool {
					return p.Name == port["targetPort"]
				}) {
					t.Errorf("%s: the service's port %v is none of the pod's", m.File, port)
				}
			}
		}
		if m.Kind == "StatefulSet" && (m.Spec.ServiceName != m.Metadata.Name || m.Spec.MinReadySeconds == 0) {
			t.Errorf("%s: its service is %q, min ready %d s", m.File, m.Spec.ServiceName, m.Spec.MinReadySeconds)
		}
	}
}

func TestWhatPodsAreToldAndMountedIsThere(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	settings := find(t, all, "ConfigMap", "stillhere")
	examples, err := ReadManifest(filepath.Join(Root(), "deploy", "k8s", "secret.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	secret := find(t, examples, "Secret", "stillhere")
	_, port, _ := strings.Cut(settings.Data["STILLHERE_ADMIN"], ":")
	for name, c := range Ours(all) {
		if len(c.EnvFrom) != 1 || c.EnvFrom[0].ConfigMap.Name != settings.Metadata.Name {
			t.Errorf("%s: is not told the settings", name)
		}
		for _, e := range c.Env {
			from := e.ValueFrom
			if key := from.Secret.Key; key != "" && (from.Secret.Name != "stillhere" || secret.StringData[key] == "") {
				t.Errorf("%s: %s comes from %+v, which the example of the secret does not have", name, e.Name, from.Secret)
			}
			if e.Name == "STILLHERE_INSTANCE" && from.Field.Path != "metadata.name" {
				t.Errorf("%s: is named after %q, which is not the pod's name", name, from.Field.Path)
			}
			if e.Name == "STILLHERE_AUTH_SECRET_FILE" && (len(c.Mounts) != 1 || !c.Mounts[0].ReadOnly || filepath.Dir(e.Value) != c.Mounts[0].Path) {
				t.Errorf("%s: %s is not mounted by %+v", name, e.Value, c.Mounts)
			}
		}
		for _, p := range c.Ports {
			if p.Name == "admin" && port != "9090" || p.Name == "admin" && p.Port != 9090 {
				t.Errorf("%s: the admin port is %d, it listens at %s", name, p.Port, settings.Data["STILLHERE_ADMIN"])
			}
		}
		if len(c.Ports) > 0 && (c.Startup.HTTP.Path != "/healthz" || c.Liveness.HTTP.Path != "/healthz" || c.Readiness.HTTP.Path != "/readyz" || c.Readiness.HTTP.Port != "admin") {
			t.Errorf("%s: is probed at %+v, %+v, %+v", name, c.Startup.HTTP, c.Liveness.HTTP, c.Readiness.HTTP)
		}
	}
}

func TestEveryManifestIsApplied(t *testing.T) {
	t.Parallel()
	applied := map[string]bool{"kustomization.yaml": true, "secret.example.yaml": true}
	for _, m := range manifests(t) {
		applied[m.File] = true
	}
	files, err := os.ReadDir(filepath.Join(Root(), "deploy", "k8s"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f.Name(), ".yaml") && !applied[f.Name()] {
			t.Errorf("kustomization.yaml does not name %s", f.Name())
		}
	}
}
