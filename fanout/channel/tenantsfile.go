package channel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/stillhere/stillhere/internal/keys"
)

// tenantsFile is the form of a file of tenants, in YAML or JSON.
type tenantsFile struct {
	Tenants []struct {
		Tenant *string `yaml:"tenant"`
		URL    string  `yaml:"url"`
		// One of the three, or none.
		Secret     string `yaml:"secret"`
		SecretFile string `yaml:"secret_file"` // relative to the file
		SecretEnv  string `yaml:"secret_env"`  // name of a variable of the environment

		Events []string `yaml:"events"`
		Rate   float64  `yaml:"rate"`
	} `yaml:"tenants"`
}

// ReadTenants reads a file of tenants with their receivers. files are the file and those that it names:
// what to watch for changes, whether or not there is an error. An error names all faults, and no secret.
func ReadTenants(path string) (all []TenantWebhook, files []string, err error) {
	files = []string{path}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, files, err
	}
	var file tenantsFile
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, files, fmt.Errorf("%s: %w", path, err)
	}
	var faults []error
	for i, t := range file.Tenants {
		at := fmt.Sprintf("tenants[%d]", i)
		if t.Tenant == nil {
			faults = append(faults, fmt.Errorf("%s.tenant: is missing; '' is the default tenant", at))
			continue
		}
		secret := t.Secret
		given := 0
		for _, way := range []string{t.Secret, t.SecretFile, t.SecretEnv} {
			if way != "" {
				given++
			}
		}
		if given > 1 {
			faults = append(faults, fmt.Errorf("%s: secret, secret_file and secret_env exclude each other", at))
		}
		if t.SecretFile != "" {
			if !filepath.IsAbs(t.SecretFile) {
				t.SecretFile = filepath.Join(filepath.Dir(path), t.SecretFile)
			}
			files = append(files, t.SecretFile)
			if secret, err = (keys.Secret{File: t.SecretFile}).Read(); err != nil {
				faults = append(faults, fmt.Errorf("%s.secret_file: %w", at, err))
			}
		}
		if t.SecretEnv != "" {
			if secret = os.Getenv(t.SecretEnv); secret == "" {
				faults = append(faults, fmt.Errorf("%s.secret_env: the variable %s is not set", at, t.SecretEnv))
			}
		}
		all = append(all, TenantWebhook{Tenant: *t.Tenant, URL: t.URL, Secret: secret, Events: t.Events, Rate: t.Rate})
	}
	if err := errors.Join(faults...); err != nil {
		return nil, files, fmt.Errorf("%s: %w", path, err)
	}
	return all, files, nil
}
