package manifests

import (
	"context"
	"path/filepath"
	"strings"
	"sync"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/stillhere/stillhere/internal/testkit/source"
)

// Root is the folder of the repository.
func Root() string { return source.Root() }

// ReadCompose reads docker-compose.yml as the engine does, checked against the schema of Compose,
// with all profiles and with every variable at its default. The project is shared: nobody changes it.
var ReadCompose = sync.OnceValues(func() (*types.Project, error) {
	options, err := cli.NewProjectOptions([]string{filepath.Join(Root(), "docker-compose.yml")}, cli.WithProfiles([]string{"*"}))
	if err != nil {
		return nil, err
	}
	return options.LoadProject(context.Background())
})

// RunsStillhere reports whether the service runs our program.
func RunsStillhere(s types.ServiceConfig) bool { return strings.HasPrefix(s.Image, "stillhere:") }

// Value is an environment variable of the service, empty without it.
func Value(s types.ServiceConfig, name string) string {
	if value := s.Environment[name]; value != nil {
		return *value
	}
	return ""
}

// Settings are the environment variables that our program reads.
func Settings(s types.ServiceConfig) map[string]string {
	settings := map[string]string{}
	for name := range s.Environment {
		if strings.HasPrefix(name, "STILLHERE_") {
			settings[name] = Value(s, name)
		}
	}
	return settings
}
