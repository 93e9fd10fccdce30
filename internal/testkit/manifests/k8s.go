package manifests

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Manifest is an object of deploy/k8s.
type Manifest struct {
	File string
	Kind string
	metav1.Object
}

// kinds are the kinds of objects in use.
var kinds = map[string]func() metav1.Object{
	"apps/v1 Deployment":                 func() metav1.Object { return &appsv1.Deployment{} },
	"apps/v1 StatefulSet":                func() metav1.Object { return &appsv1.StatefulSet{} },
	"batch/v1 Job":                       func() metav1.Object { return &batchv1.Job{} },
	"networking.k8s.io/v1 NetworkPolicy": func() metav1.Object { return &networkingv1.NetworkPolicy{} },
	"policy/v1 PodDisruptionBudget":      func() metav1.Object { return &policyv1.PodDisruptionBudget{} },
	"v1 ConfigMap":                       func() metav1.Object { return &corev1.ConfigMap{} },
	"v1 Namespace":                       func() metav1.Object { return &corev1.Namespace{} },
	"v1 Secret":                          func() metav1.Object { return &corev1.Secret{} },
	"v1 Service":                         func() metav1.Object { return &corev1.Service{} },
}

// Pod is the template of the object's pods, nil if it makes none.
func (m Manifest) Pod() *corev1.PodTemplateSpec {
	switch o := m.Object.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *batchv1.Job:
		return &o.Spec.Template
	}
	return nil
}

// ReadManifests reads what deploy/k8s/kustomization.yaml names.
func ReadManifests() (all []Manifest, err error) {
	folder := filepath.Join(Root(), "deploy", "k8s")
	var list struct {
		Resources []string `yaml:"resources"`
	}
	if err := ReadYAML(&list, "deploy", "k8s", "kustomization.yaml"); err != nil {
		return nil, err
	}
	for _, file := range list.Resources {
		some, err := ReadManifest(filepath.Join(folder, file))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// ReadManifest reads one file of objects. A key that the API does not have is an error.
func ReadManifest(path string) (all []Manifest, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal(document, &meta); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		kind := kinds[meta.APIVersion+" "+meta.Kind]
		if kind == nil {
			return nil, fmt.Errorf("reading %s: there is no kind %q of %q", path, meta.Kind, meta.APIVersion)
		}
		m := Manifest{filepath.Base(path), meta.Kind, kind()}
		if err := yaml.UnmarshalStrict(document, m.Object); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		all = append(all, m)
	}
	return all, nil
}

// Containers are those that run our program, by the name of their object.
func Containers(all []Manifest) map[string]corev1.Container {
	containers := map[string]corev1.Container{}
	for _, m := range all {
		if pod := m.Pod(); pod != nil {
			containers[m.GetName()] = pod.Spec.Containers[0]
		}
	}
	return containers
}
