package manifests

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	i := slices.IndexFunc(all, func(m Manifest) bool { return m.Kind == kind && m.GetName() == name })
	if i < 0 {
		t.Fatalf("there is no %s %s", kind, name)
	}
	return all[i]
}

func TestEveryPodMayDoOnlyWhatItMust(t *testing.T) {
	t.Parallel()
	for _, m := range manifests(t) {
		if m.Pod() == nil {
			continue
		}
		pod, name := m.Pod().Spec, m.File+" "+m.GetName()
		if s := pod.SecurityContext; s == nil || s.SeccompProfile == nil || !is(s.RunAsNonRoot, true) || !is(s.RunAsUser, 65532) {
			t.Errorf("%s: runs as %v", name, s)
		}
		if !is(pod.AutomountServiceAccountToken, false) || !is(pod.EnableServiceLinks, false) {
			t.Errorf("%s: is given a token or addresses that it does not need", name)
		}
		if grace := pod.TerminationGracePeriodSeconds; grace == nil || *grace <= 40 {
			t.Errorf("%s: the program takes up to 40 s to finish what it has in hand, and is killed before", name)
		}
		for _, c := range pod.Containers {
			s := c.SecurityContext
			if s == nil || !is(s.AllowPrivilegeEscalation, false) || !is(s.ReadOnlyRootFilesystem, true) || s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
				t.Errorf("%s: keeps privileges: %+v", name, s)
			}
			if c.Image != "stillhere:dev" {
				t.Errorf("%s: the image is %q; kustomization.yaml replaces stillhere:dev", name, c.Image)
			}
			if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
				t.Errorf("%s: has no requests and limits: %+v", name, c.Resources)
			}
			for _, e := range c.Env {
				if e.Name == "GOMEMLIMIT" {
					checkHeap(t, name, e.Value, c.Resources.Limits.Memory().Value())
				}
			}
		}
	}
}

// is reports whether a field is set to a value.
func is[T comparable](field *T, value T) bool { return field != nil && *field == value }

func TestEveryObjectFindsItsPods(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	for _, m := range all {
		var selector *metav1.LabelSelector
		switch o := m.Object.(type) {
		case *appsv1.Deployment:
			selector = o.Spec.Selector
		case *appsv1.StatefulSet:
			if selector = o.Spec.Selector; o.Spec.ServiceName != m.GetName() || o.Spec.MinReadySeconds == 0 {
				t.Errorf("%s: its service is %q, min ready %d s", m.File, o.Spec.ServiceName, o.Spec.MinReadySeconds)
			}
		default:
			continue
		}
		labels := m.Pod().Labels
		want := &metav1.LabelSelector{MatchLabels: map[string]string{"app": labels["app"], "role": labels["role"]}}
		if !reflect.DeepEqual(selector, want) || labels["role"] != m.GetName() {
			t.Errorf("%s: selects %v, its pods have %v", m.File, selector, labels)
		}
		service := find(t, all, "Service", m.GetName()).Object.(*corev1.Service)
		budget := find(t, all, "PodDisruptionBudget", m.GetName()).Object.(*policyv1.PodDisruptionBudget)
		if service.Spec.Selector["role"] != m.GetName() || !reflect.DeepEqual(budget.Spec.Selector, want) {
			t.Errorf("%s: service %v or budget %v selects others", m.File, service.Spec.Selector, budget.Spec.Selector)
		}
		for _, port := range service.Spec.Ports {
			target := port.TargetPort
			if !slices.ContainsFunc(m.Pod().Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool {
				return p.Name == target.StrVal || p.ContainerPort == target.IntVal
			}) {
				t.Errorf("%s: the service's port %v is none of the pod's", m.File, port)
			}
		}
	}
}

func TestSettingsAndMountsOfPodsExist(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	settings := find(t, all, "ConfigMap", "stillhere").Object.(*corev1.ConfigMap)
	examples, err := ReadManifest(filepath.Join(Root(), "deploy", "k8s", "secret.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	secret := find(t, examples, "Secret", "stillhere").Object.(*corev1.Secret)
	_, port, _ := strings.Cut(settings.Data["STILLHERE_ADMIN"], ":")
	for name, c := range Containers(all) {
		if len(c.EnvFrom) != 1 || c.EnvFrom[0].ConfigMapRef == nil || c.EnvFrom[0].ConfigMapRef.Name != settings.Name {
			t.Errorf("%s: does not read the settings", name)
		}
		for _, e := range c.Env {
			if from := e.ValueFrom; from != nil && from.SecretKeyRef != nil && (from.SecretKeyRef.Name != "stillhere" || secret.StringData[from.SecretKeyRef.Key] == "") {
				t.Errorf("%s: %s comes from %+v, which the example of the secret does not have", name, e.Name, from.SecretKeyRef)
			}
			if e.Name == "STILLHERE_INSTANCE" && (e.ValueFrom == nil || e.ValueFrom.FieldRef == nil || e.ValueFrom.FieldRef.FieldPath != "metadata.name") {
				t.Errorf("%s: is named after %+v, which is not the pod's name", name, e.ValueFrom)
			}
			if e.Name == "STILLHERE_AUTH_SECRET_FILE" && (len(c.VolumeMounts) != 1 || !c.VolumeMounts[0].ReadOnly || filepath.Dir(e.Value) != c.VolumeMounts[0].MountPath) {
				t.Errorf("%s: %s is not mounted by %+v", name, e.Value, c.VolumeMounts)
			}
		}
		for _, p := range c.Ports {
			if p.Name == "admin" && (port != "9090" || p.ContainerPort != 9090) {
				t.Errorf("%s: the admin port is %d, it listens at %s", name, p.ContainerPort, settings.Data["STILLHERE_ADMIN"])
			}
		}
		if len(c.Ports) == 0 {
			continue
		}
		for _, probe := range []struct {
			what, path string
			*corev1.Probe
		}{{"startup", "/healthz", c.StartupProbe}, {"liveness", "/healthz", c.LivenessProbe}, {"readiness", "/readyz", c.ReadinessProbe}} {
			if probe.Probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != probe.path || probe.HTTPGet.Port.StrVal != "admin" {
				t.Errorf("%s: the %s probe is %+v", name, probe.what, probe.Probe)
			}
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
