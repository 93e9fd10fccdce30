package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stillhere/stillhere/tools/contexts"
)

// TestMain keeps the contexts of the person who runs the tests out of them.
func TestMain(m *testing.M) {
	if err := os.Setenv(contexts.PathVariable, filepath.Join(os.TempDir(), "stillhere-tests-have-no-contexts.yaml")); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
