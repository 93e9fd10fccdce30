// Package source finds the sources of this module, for tests that read or build them.
package source

import (
	"os"
	"path/filepath"
)

// Root is the folder of the module that holds the working directory, which is that of the package
// under test. Binaries that were built with -trimpath do not know their sources' folder. It panics
// outside of a module.
func Root() string {
	at, err := os.Getwd()
	if err != nil {
		panic("finding the module: " + err.Error())
	}
	for {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			panic("finding the module: no go.mod in the working directory or above it")
		}
		at = filepath.Dir(at)
	}
}
