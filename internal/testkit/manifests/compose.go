package manifests

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Root is the folder of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// Compose is a docker-compose.yml. Keys that are not known here are errors, so
// that a misspelt one is.
type Compose struct {
	Name       string             `yaml:"name"`
	Services   map[string]Service `yaml:"services"`
	Volumes    map[string]any     `yaml:"volumes"`
	Extensions map[string]any     `yaml:",inline"`
}

// Service is one of its services.
type Service struct {
	Image           string                `yaml:"image"`
	Build           *Build                `yaml:"build"`
	Command         []string              `yaml:"command"`
	User            string                `yaml:"user"`
	ReadOnly        bool                  `yaml:"read_only"`
	SecurityOpt     []string              `yaml:"security_opt"`
	CapDrop         []string              `yaml:"cap_drop"`
	Restart         string                `yaml:"restart"`
	StopGracePeriod string                `yaml:"stop_grace_period"`
	Logging         map[string]any        `yaml:"logging"`
	Environment     map[string]string     `yaml:"environment"`
	Volumes         []string              `yaml:"volumes"`
	Tmpfs           []string              `yaml:"tmpfs"`
	ShmSize         string                `yaml:"shm_size"`
	Ports           []string              `yaml:"ports"`
	DependsOn       map[string]Dependency `yaml:"depends_on"`
	Ulimits         map[string]int        `yaml:"ulimits"`
	Profiles        []string              `yaml:"profiles"`
	Healthcheck     Healthcheck           `yaml:"healthcheck"`
	Deploy          struct {
		Resources struct {
			Limits struct {
				CPUs   string `yaml:"cpus"`
				Memory string `yaml:"memory"`
				Pids   int    `yaml:"pids"`
			} `yaml:"limits"`
		} `yaml:"resources"`
	} `yaml:"deploy"`
}

// Build says how an image is made.
type Build struct {
	Context    string            `yaml:"context"`
	Dockerfile string            `yaml:"dockerfile"`
	Args       map[string]string `yaml:"args"`
}

// Dependency is what a service waits for.
type Dependency struct {
	Condition string `yaml:"condition"`
}

// Healthcheck is how the engine looks whether a service is well.
type Healthcheck struct {
	Test        []string `yaml:"test"`
	Interval    string   `yaml:"interval"`
	Timeout     string   `yaml:"timeout"`
	Retries     int      `yaml:"retries"`
	StartPeriod string   `yaml:"start_period"`
	Disable     bool     `yaml:"disable"`
}

// variable is ${NAME:-default}, the only form in use.
var variable = regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`)

// ReadCompose reads docker-compose.yml with every variable at its default.
func ReadCompose() (*Compose, error) {
	text, err := os.ReadFile(filepath.Join(Root(), "docker-compose.yml"))
	if err != nil {
		return nil, err
	}
	text = variable.ReplaceAll(text, []byte("$1"))
	var c Compose
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&c); err != nil {
		return nil, fmt.Errorf("reading docker-compose.yml: %w", err)
	}
	for key := range c.Extensions {
		if !strings.HasPrefix(key, "x-") {
			return nil, fmt.Errorf("reading docker-compose.yml: %q is not a key", key)
		}
	}
	return &c, nil
}

// Ours tells whether the service runs our program.
func (s Service) Ours() bool { return strings.HasPrefix(s.Image, "stillhere:") }

// Settings are the environment variables that our program reads.
func (s Service) Settings() map[string]string {
	settings := map[string]string{}
	for name, value := range s.Environment {
		if strings.HasPrefix(name, "STILLHERE_") {
			settings[name] = value
		}
	}
	return settings
}
