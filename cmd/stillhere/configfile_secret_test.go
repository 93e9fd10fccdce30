package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFileOfSettingsWithASecretIsForItsOwnerToWrite(t *testing.T) {
	t.Parallel()
	for text, secret := range map[string]bool{
		"kafka-password: x":                            true,
		"contexts: {a: {token: x}}":                    true,
		"postgres: postgres://u:x@db/y":                true,
		"kafka-password-file: /run/x\nonline-ttl: 60s": false,
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, 0o660)); err != nil {
			t.Fatal(err)
		}
		_, err := readConfigFile(path)
		if refused := err != nil && strings.Contains(err.Error(), "may be written by others"); refused != secret || err != nil && !secret {
			t.Errorf("%q: %v", text, err)
		}
	}
}
