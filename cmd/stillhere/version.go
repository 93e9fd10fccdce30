package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"
)

// version is stamped by the build: -ldflags "-X main.version=…". What is not stamped
// is named by what Go knows of it.
var version string

func init() {
	if version == "" {
		version = builtFrom(debug.ReadBuildInfo())
	}
}

// builtFrom is the version of the module, which "go install …@v1.2.3" and a build in a
// repository know; "dev" where nothing is known, as with "go run".
func builtFrom(info *debug.BuildInfo, known bool) string {
	if !known || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}

// versionCommand prints what --version does, and what it was built with.
type versionCommand struct{}

// Run prints.
func (versionCommand) Run(parsed *kong.Context) error {
	_, err := fmt.Fprintf(parsed.Stdout, "stillhere %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
