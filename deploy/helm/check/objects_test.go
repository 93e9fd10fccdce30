package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

func TestEveryObjectIsWhatItsAPIHas(t *testing.T) {
	each(t, func(t *testing.T, all []object) {
		seen := map[string]bool{}
		for _, o := range all {
			if _, err := o.decode(); err != nil {
				t.Error(err)
			}
			if seen[o.String()] || len(o.Name) > 63 {
				t.Errorf("%s: is there twice, or its name is too long", o)
			}
			seen[o.String()] = true
		}
	})
}

// workload is what has pods.
type workload struct {
	object
	core.PodTemplateSpec
}

func (w workload) String() string { return w.object.String() }

// cluster are the objects of a rendering, decoded.
type cluster struct {
	workloads []workload
	all       map[string]any // by kind and name
}

func decodeAll(t *testing.T, all []object) cluster {
	t.Helper()
	c := cluster{all: map[string]any{}}
	for _, o := range all {
		typed, err := o.decode()
		if err != nil {
			t.Fatal(err)
		}
		c.all[o.String()] = typed
		switch w := typed.(type) {
		case *apps.Deployment:
			c.workloads = append(c.workloads, workload{o, w.Spec.Template})
		case *apps.StatefulSet:
			c.workloads = append(c.workloads, workload{o, w.Spec.Template})
		case *batch.Job:
			c.workloads = append(c.workloads, workload{o, w.Spec.Template})
		}
	}
	return c
}

// is reports whether a field is set to a value.
func is[T comparable](field *T, value T) bool { return field != nil && *field == value }

func TestEveryPodMayDoOnlyWhatItMust(t *testing.T) {
	each(t, func(t *testing.T, all []object) {
		for _, w := range decodeAll(t, all).workloads {
			pod := w.Spec
			if s := pod.SecurityContext; s == nil || s.SeccompProfile == nil || s.SeccompProfile.Type != "RuntimeDefault" ||
				!is(s.RunAsNonRoot, true) || !is(s.RunAsUser, 65532) {
				t.Errorf("%s: runs as %v", w, s)
			}
			if !is(pod.AutomountServiceAccountToken, false) || !is(pod.EnableServiceLinks, false) || pod.HostNetwork || pod.HostPID {
				t.Errorf("%s: is given what it does not need", w)
			}
			for _, c := range pod.Containers {
				s := c.SecurityContext
				if s == nil || !is(s.AllowPrivilegeEscalation, false) || !is(s.ReadOnlyRootFilesystem, true) || s.Capabilities == nil ||
					!slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
					t.Errorf("%s: keeps privileges: %+v", w, s)
				}
				limit := c.Resources.Limits.Memory()
				if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || limit.IsZero() ||
					c.Resources.Requests.Memory().Cmp(*limit) > 0 {
					t.Errorf("%s: has requests and limits %+v", w, c.Resources)
				}
				var heap int64
				for _, e := range c.Env {
					if e.Name == "GOMEMLIMIT" {
						fmt.Sscanf(e.Value, "%dMiB", &heap)
					}
				}
				if heap<<20 > limit.Value()*9/10 || heap<<20 < limit.Value()*8/10 {
					t.Errorf("%s: GOMEMLIMIT is %d MiB of %s", w, heap, limit)
				}
				if w.Kind != "Job" && (probed(c.StartupProbe) != "/healthz" || probed(c.LivenessProbe) != "/healthz" || probed(c.ReadinessProbe) != "/readyz") {
					t.Errorf("%s: its probes are %v, %v, %v", w, c.StartupProbe, c.LivenessProbe, c.ReadinessProbe)
				}
			}
		}
	})
}

func probed(p *core.Probe) string {
	if p == nil || p.HTTPGet == nil || p.HTTPGet.Port.StrVal != "admin" {
		return ""
	}
	return p.HTTPGet.Path
}

func TestEveryObjectFindsItsPods(t *testing.T) {
	each(t, func(t *testing.T, all []object) {
		c := decodeAll(t, all)
		pods := func(what string, selector map[string]string, ports ...intstr.IntOrString) {
			t.Helper()
			found := 0
			for _, w := range c.workloads {
				if !labels.SelectorFromSet(selector).Matches(labels.Set(w.Labels())) {
					continue
				}
				found++
				for _, port := range ports {
					if !slices.ContainsFunc(w.Spec.Containers[0].Ports, func(p core.ContainerPort) bool {
						return p.Name == port.StrVal || p.ContainerPort == port.IntVal
					}) {
						t.Errorf("%s: %s has no port %v", what, w, port.String())
					}
				}
			}
			if found != 1 || len(selector) == 0 {
				t.Errorf("%s selects %d workloads by %v", what, found, selector)
			}
		}
		backend := func(what, name string) {
			t.Helper()
			service, ok := c.all["Service "+name].(*core.Service)
			if !ok || service.Spec.Ports[0].Name != "http" || service.Spec.Ports[0].Port != 80 {
				t.Errorf("%s leads to %s, which is no service with http on port 80", what, name)
			}
		}
		admin := map[string]bool{}
		for name, o := range c.all {
			switch o := o.(type) {
			case *core.Service:
				pods(name, o.Spec.Selector, o.Spec.Ports[0].TargetPort)
				if o.Labels["stillhere/admin"] != "" && o.Spec.Ports[0].Name == "admin" {
					admin[o.Spec.Selector["app.kubernetes.io/component"]] = true
				}
			case *policy.PodDisruptionBudget:
				pods(name, o.Spec.Selector.MatchLabels)
			case *networking.NetworkPolicy:
				pods(name, o.Spec.PodSelector.MatchLabels)
			case *apps.Deployment:
				pods(name, o.Spec.Selector.MatchLabels)
			case *apps.StatefulSet:
				pods(name, o.Spec.Selector.MatchLabels)
				if service, ok := c.all["Service "+o.Spec.ServiceName].(*core.Service); !ok || service.Spec.ClusterIP != "None" {
					t.Errorf("%s: its service is %q", name, o.Spec.ServiceName)
				}
			case *autoscaling.HorizontalPodAutoscaler:
				if d, ok := c.all["Deployment "+o.Spec.ScaleTargetRef.Name].(*apps.Deployment); !ok || d.Spec.Replicas != nil {
					t.Errorf("%s scales %v, or its replicas are set as well", name, o.Spec.ScaleTargetRef)
				}
			case *scaledObject:
				if s, ok := c.all["StatefulSet "+o.Spec.ScaleTargetRef.Name].(*apps.StatefulSet); !ok || s.Spec.Replicas != nil {
					t.Errorf("%s scales %v, or its replicas are set as well", name, o.Spec.ScaleTargetRef)
				}
				for _, trigger := range o.Spec.Triggers {
					if trigger.Metadata["bootstrapServers"] == "" || !strings.HasSuffix(trigger.Metadata["topic"], "transitions") {
						t.Errorf("%s: %v", name, trigger)
					}
				}
			case *networking.Ingress:
				for _, rule := range o.Spec.Rules {
					for _, p := range rule.HTTP.Paths {
						backend(name, p.Backend.Service.Name)
					}
				}
			case *gateway.HTTPRoute:
				for _, rule := range o.Spec.Rules {
					backend(name, string(rule.BackendRefs[0].Name))
				}
			case *monitoring.ServiceMonitor:
				if len(admin) == 0 && o.Spec.Selector.MatchLabels["stillhere/admin"] != "true" || o.Spec.Endpoints[0].Port != "admin" {
					t.Errorf("%s selects %v", name, o.Spec.Selector)
				}
			}
		}
		for _, w := range c.workloads {
			if role := w.Labels()["app.kubernetes.io/component"]; w.Kind != "Job" && !admin[role] {
				t.Errorf("nothing measures %s", w)
			}
		}
	})
}

// Labels are those of the pods.
func (w workload) Labels() map[string]string { return w.PodTemplateSpec.Labels }

func TestEverySecretOfAPodIsOneThatIsTold(t *testing.T) {
	example, err := os.ReadFile(filepath.Join(plainFolder, "secret.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var told core.Secret
	if err := yaml.UnmarshalStrict(example, &told); err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, all []object) {
		c := decodeAll(t, all)
		keys := map[string]bool{}
		for key := range told.StringData {
			keys[told.Name+" "+key] = true
		}
		for _, o := range c.all {
			if e, ok := o.(*externalSecret); ok {
				clear(keys)
				for _, d := range e.Spec.Data {
					keys[e.Spec.Target.Name+" "+d.SecretKey] = true
				}
			}
		}
		for _, w := range c.workloads {
			mounted := map[string]string{}
			for _, v := range w.Spec.Volumes {
				for _, item := range v.Secret.Items {
					mounted["/etc/stillhere/"+v.Name+"/"+item.Path] = v.Secret.SecretName + " " + item.Key
				}
			}
			if len(w.Spec.Volumes) != len(w.Spec.Containers[0].VolumeMounts) {
				t.Errorf("%s mounts %v of %v", w, w.Spec.Containers[0].VolumeMounts, w.Spec.Volumes)
			}
			settings := map[string]string{}
			if shared, ok := c.all["ConfigMap "+w.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name].(*core.ConfigMap); ok {
				for name, value := range shared.Data {
					if strings.HasPrefix(name, "STILLHERE_KAFKA") && w.PodTemplateSpec.Labels["app.kubernetes.io/component"] != "migrate" {
						settings[name] = value
					}
				}
			}
			for _, e := range w.Spec.Containers[0].Env {
				settings[e.Name] = e.Value
				if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
					mounted[e.Name] = e.ValueFrom.SecretKeyRef.Name + " " + e.ValueFrom.SecretKeyRef.Key
				}
			}
			for name, value := range settings {
				if strings.HasPrefix(value, "/etc/stillhere/") && mounted[value] == "" {
					t.Errorf("%s: %s is %s, which nothing mounts", w, name, value)
				}
			}
			for at, from := range mounted {
				if strings.HasPrefix(from, "stillhere ") && !keys[from] && !strings.HasSuffix(from, "kafka-password") {
					t.Errorf("%s: %s comes from %q, which neither the example nor the external secret has", w, at, from)
				}
			}
		}
	})
}

func TestAlertsAndBoardsAreThoseOfTheirFiles(t *testing.T) {
	t.Parallel()
	all, err := render("stillhere", variations["all"]...)
	if err != nil {
		t.Fatal(err)
	}
	c := decodeAll(t, all)
	rule := c.all["PrometheusRule stillhere"].(*monitoring.PrometheusRule)
	var want monitoring.PrometheusRuleSpec
	text, err := os.ReadFile("../../prometheus/rules/stillhere.yml")
	if err == nil {
		err = yaml.UnmarshalStrict(text, &want)
	}
	if err != nil || len(want.Groups) == 0 || !reflect.DeepEqual(rule.Spec, want) {
		t.Errorf("the rules differ: %v", err)
	}
	boards, err := filepath.Glob("../../grafana/dashboards/*.json")
	if err != nil || len(boards) == 0 {
		t.Fatal("there are no boards", err)
	}
	for _, path := range boards {
		name := filepath.Base(path)
		board := c.all["ConfigMap stillhere-board-"+strings.TrimSuffix(name, ".json")].(*core.ConfigMap)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(board.Data[name]), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s differs from its file: %v", board.Name, err)
		}
	}
}
