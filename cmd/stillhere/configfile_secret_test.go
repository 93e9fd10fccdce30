package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// Not parallel, as parse sets the environment.
func TestAFileOfSettingsWithASecretIsForItsOwnerToWrite(t *testing.T) {
	for text, secret := range map[string]bool{
		"contexts: {a: {postgres: postgres://u:x@db/y}}": true,
		"postgres: postgres://u:x@db/y":                  true,
		"postgres: postgres://u:x@/y?host=db":            true,
		"postgres: postgres://u@db/y":                    false,
		"kafka-password-file: /run/x\nlog-level: info":   false,
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		must.Do(t, errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, 0o660)))
		parsed := must.Get(parse(t, []string{"all"}, nil))(t)
		file, err := readConfigFile(path)
		if err == nil && len(file.contexts) > 0 {
			err = file.use("a")
		}
		for _, flag := range parsed.Flags() {
			_, wrong := file.Resolve(nil, nil, flag)
			err = errors.Join(err, wrong)
		}
		if refused := err != nil && strings.Contains(err.Error(), "may be written by others"); refused != secret || err != nil && !secret {
			t.Errorf("%q: %v", text, err)
		}
	}
}
