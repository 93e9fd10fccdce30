package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

// Manifest is an object of deploy/k8s. Keys that are not known here are errors, so
// that a misspelt one is.
type Manifest struct {
	File       string
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   ObjectMeta        `yaml:"metadata"`
	Spec       Spec              `yaml:"spec"`
	Data       map[string]string `yaml:"data"`
	StringData map[string]string `yaml:"stringData"`
}

// ObjectMeta names an object.
type ObjectMeta struct {
	Name        string            `yaml:"name"`
	Namespace   string            `yaml:"namespace"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// Spec has the keys of all kinds that are in use.
type Spec struct {
	Replicas            int            `yaml:"replicas"`
	ServiceName         string         `yaml:"serviceName"`
	PodManagementPolicy string         `yaml:"podManagementPolicy"`
	MinReadySeconds     int            `yaml:"minReadySeconds"`
	Strategy            map[string]any `yaml:"strategy"`
	BackoffLimit        int            `yaml:"backoffLimit"`
	TTL                 int            `yaml:"ttlSecondsAfterFinished"`
	Selector            map[string]any `yaml:"selector"`
	Template            struct {
		Metadata ObjectMeta `yaml:"metadata"`
		Spec     PodSpec    `yaml:"spec"`
	} `yaml:"template"`
	ClusterIP       string           `yaml:"clusterIP"`
	PublishNotReady bool             `yaml:"publishNotReadyAddresses"`
	Ports           []map[string]any `yaml:"ports"`
	MaxUnavailable  int              `yaml:"maxUnavailable"`
	PodSelector     map[string]any   `yaml:"podSelector"`
	PolicyTypes     []string         `yaml:"policyTypes"`
	Ingress         []map[string]any `yaml:"ingress"`
}

// PodSpec is what runs.
type PodSpec struct {
	RestartPolicy  string           `yaml:"restartPolicy"`
	ServiceToken   *bool            `yaml:"automountServiceAccountToken"`
	ServiceLinks   *bool            `yaml:"enableServiceLinks"`
	GracePeriod    int              `yaml:"terminationGracePeriodSeconds"`
	Security       map[string]any   `yaml:"securityContext"`
	TopologySpread []map[string]any `yaml:"topologySpreadConstraints"`
	Containers     []Container      `yaml:"containers"`
	Volumes        []map[string]any `yaml:"volumes"`
}

// Container is one of a pod.
type Container struct {
	Name    string   `yaml:"name"`
	Image   string   `yaml:"image"`
	Args    []string `yaml:"args"`
	EnvFrom []struct {
		ConfigMap struct {
			Name string `yaml:"name"`
		} `yaml:"configMapRef"`
	} `yaml:"envFrom"`
	Env []struct {
		Name      string `yaml:"name"`
		Value     string `yaml:"value"`
		ValueFrom struct {
			Field struct {
				Path string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
			Secret struct {
				Name string `yaml:"name"`
				Key  string `yaml:"key"`
			} `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	} `yaml:"env"`
	Ports []struct {
		Name string `yaml:"name"`
		Port int    `yaml:"containerPort"`
	} `yaml:"ports"`
	Startup   Probe          `yaml:"startupProbe"`
	Liveness  Probe          `yaml:"livenessProbe"`
	Readiness Probe          `yaml:"readinessProbe"`
	Lifecycle map[string]any `yaml:"lifecycle"`
	Resources struct {
		Requests map[string]string `yaml:"requests"`
		Limits   map[string]string `yaml:"limits"`
	} `yaml:"resources"`
	Security struct {
		Escalation   *bool               `yaml:"allowPrivilegeEscalation"`
		ReadOnly     bool                `yaml:"readOnlyRootFilesystem"`
		Capabilities map[string][]string `yaml:"capabilities"`
	} `yaml:"securityContext"`
	Mounts []struct {
		Name     string `yaml:"name"`
		Path     string `yaml:"mountPath"`
		ReadOnly bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

// Probe asks over HTTP.
type Probe struct {
	HTTP struct {
		Path string `yaml:"path"`
		Port string `yaml:"port"`
	} `yaml:"httpGet"`
	Period   int `yaml:"periodSeconds"`
	Timeout  int `yaml:"timeoutSeconds"`
	Failures int `yaml:"failureThreshold"`
}

// ReadManifests reads what deploy/k8s/kustomization.yaml names.
func ReadManifests() ([]Manifest, error) {
	folder := filepath.Join(Root(), "deploy", "k8s")
	var list struct {
		Resources []string `yaml:"resources"`
	}
	text, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &list)
	}
	if err != nil {
		return nil, err
	}
	var all []Manifest
	for _, file := range list.Resources {
		some, err := ReadManifest(filepath.Join(folder, file))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// ReadManifest reads one file of objects.
func ReadManifest(path string) ([]Manifest, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var all []Manifest
	for {
		m := Manifest{File: filepath.Base(path)}
		switch err := decoder.Decode(&m); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		all = append(all, m)
	}
}

// Ours are the containers that run our program, by the name of their object.
func Ours(all []Manifest) map[string]Container {
	ours := map[string]Container{}
	for _, m := range all {
		for _, c := range m.Spec.Template.Spec.Containers {
			ours[m.Metadata.Name] = c
		}
	}
	return ours
}
