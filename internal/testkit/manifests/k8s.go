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

// Object is one of Kubernetes, as far as tests here look at it. deploy/helm/check decodes all of it.
type Object struct {
	Kind     string
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Data map[string]string // of a ConfigMap
	Spec struct {
		Template struct {
			Spec struct {
				Containers                    []Container
				TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
			}
		} // of pods

		TopicName string `yaml:"topicName"` // of a KafkaTopic
		Config    map[string]string

		Authorization struct { // of a KafkaUser
			ACLs []struct {
				Operations []string
				Resource   struct {
					Type, Name  string
					PatternType string `yaml:"patternType"`
				}
			} `yaml:"acls"`
		}
	}
}

// Container is one that runs our program.
type Container struct {
	Args []string
	Env  []struct{ Name, Value string }

	Lifecycle struct {
		PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
	}
}

// Role is the role, or the job, that the object belongs to.
func (o Object) Role() string { return o.Metadata.Labels["app.kubernetes.io/component"] }

// ReadManifests reads the objects of the YAML files in a folder.
func ReadManifests(folder string) (all []Object, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no manifests", folder)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		for {
			var o Object
			err := decoder.Decode(&o)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", file, err)
			}
			all = append(all, o)
		}
	}
	return all, err
}
