package main

import (
	"fmt"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// kinds are the kinds of objects that the chart may make, each with its type.
var kinds = map[string]func() meta.Object{
	"apps/v1 Deployment":                      func() meta.Object { return &apps.Deployment{} },
	"apps/v1 StatefulSet":                     func() meta.Object { return &apps.StatefulSet{} },
	"autoscaling/v2 HorizontalPodAutoscaler":  func() meta.Object { return &autoscaling.HorizontalPodAutoscaler{} },
	"batch/v1 Job":                            func() meta.Object { return &batch.Job{} },
	"external-secrets.io/v1 ExternalSecret":   func() meta.Object { return &externalSecret{} },
	"gateway.networking.k8s.io/v1 HTTPRoute":  func() meta.Object { return &gateway.HTTPRoute{} },
	"kafka.strimzi.io/v1 KafkaTopic":          func() meta.Object { return &kafkaTopic{} },
	"kafka.strimzi.io/v1 KafkaUser":           func() meta.Object { return &kafkaUser{} },
	"keda.sh/v1alpha1 ScaledObject":           func() meta.Object { return &scaledObject{} },
	"monitoring.coreos.com/v1 PrometheusRule": func() meta.Object { return &monitoring.PrometheusRule{} },
	"monitoring.coreos.com/v1 ServiceMonitor": func() meta.Object { return &monitoring.ServiceMonitor{} },
	"networking.k8s.io/v1 Ingress":            func() meta.Object { return &networking.Ingress{} },
	"networking.k8s.io/v1 NetworkPolicy":      func() meta.Object { return &networking.NetworkPolicy{} },
	"policy/v1 PodDisruptionBudget":           func() meta.Object { return &policy.PodDisruptionBudget{} },
	"v1 ConfigMap":                            func() meta.Object { return &core.ConfigMap{} },
	"v1 Namespace":                            func() meta.Object { return &core.Namespace{} },
	"v1 Secret":                               func() meta.Object { return &core.Secret{} },
	"v1 Service":                              func() meta.Object { return &core.Service{} },
}

// The types below are those of KEDA 2, Strimzi 1 and the External Secrets Operator as far as the chart uses them.
// KEDA's module would double what this one compiles, the others have none. crds.mjs asks validators made of their CRDs.
type scaledObject struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		ScaleTargetRef  autoscaling.CrossVersionObjectReference `json:"scaleTargetRef"`
		MinReplicaCount int32                                   `json:"minReplicaCount"`
		MaxReplicaCount int32                                   `json:"maxReplicaCount"`
		CooldownPeriod  int32                                   `json:"cooldownPeriod"`
		Advanced        struct {
			HorizontalPodAutoscalerConfig struct {
				Behavior autoscaling.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
		Triggers []struct {
			Type              string `json:"type"`
			Name              string `json:"name"`
			AuthenticationRef struct {
				Name string `json:"name"`
				Kind string `json:"kind"`
			} `json:"authenticationRef"`
			Metadata map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

type kafkaTopic struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		TopicName  string            `json:"topicName"`
		Partitions int32             `json:"partitions"`
		Replicas   int16             `json:"replicas"`
		Config     map[string]string `json:"config"`
	} `json:"spec"`
}

type kafkaUser struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		Authentication struct {
			Type string `json:"type"`
		} `json:"authentication"`
		Authorization struct {
			Type string `json:"type"`
			ACLs []acl  `json:"acls"`
		} `json:"authorization"`
	} `json:"spec"`
}

type acl struct {
	Operations []string `json:"operations"`
	Resource   struct {
		Type        string `json:"type"`
		Name        string `json:"name"`
		PatternType string `json:"patternType"`
	} `json:"resource"`
}

type externalSecret struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		RefreshInterval string `json:"refreshInterval"`
		SecretStoreRef  struct {
			Name string `json:"name"`
			Kind string `json:"kind"`
		} `json:"secretStoreRef"`
		Target struct {
			Name           string `json:"name"`
			CreationPolicy string `json:"creationPolicy"`
		} `json:"target"`
		Data []struct {
			SecretKey string `json:"secretKey"`
			RemoteRef struct {
				Key      string `json:"key"`
				Property string `json:"property"`
				Version  string `json:"version"`
			} `json:"remoteRef"`
		} `json:"data"`
	} `json:"spec"`
}

// decode reads an object into its type. A key that the type does not have is an error.
func (o object) decode() (meta.Object, error) {
	kind := kinds[o.APIVersion+" "+o.Kind]
	if kind == nil {
		return nil, fmt.Errorf("%s: there is no kind %q of %q", o.Template, o.Kind, o.APIVersion)
	}
	typed := kind()
	if err := yaml.UnmarshalStrict([]byte(o.Text), typed); err != nil {
		return nil, fmt.Errorf("%s, %s: %w in\n%s", o.Template, o, err, o.Text)
	}
	return typed, nil
}
