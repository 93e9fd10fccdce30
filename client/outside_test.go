package client_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// TestAProgramOfAnotherModuleCompilesAndRuns has a module of its own, which knows this one by
// client and schemas alone.
func TestAProgramOfAnotherModuleCompilesAndRuns(t *testing.T) {
	t.Parallel()
	root := must.Get(filepath.Abs(".."))(t)
	dir := t.TempDir()
	read := func(path string) string {
		t.Helper()
		text := must.Get(os.ReadFile(path))(t)
		return string(text)
	}
	version := "go " + strings.Fields(read("../go.mod")[strings.Index(read("../go.mod"), "\ngo "):])[1]
	for name, text := range map[string]string{
		"main.go": read("testdata/outside/main.go.txt"),
		"go.sum":  read("../go.sum"),
		"go.mod": "module example.com/outside\n\n" + version + "\n\nrequire github.com/stillhere/stillhere v0.0.0\n\n" +
			"replace github.com/stillhere/stillhere => " + strconv.Quote(root) + "\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "synctests", "-mod=mod", "-o", "outside", ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "outside"), "nowhere").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "kafka.brokers: must be host:port") {
		t.Errorf("it says %q, %v", out, err)
	}
	depend := exec.CommandContext(t.Context(), "go", "list", "-deps", ".")
	depend.Dir, depend.Env = dir, append(build.Env, "GOFLAGS=-mod=mod")
	if out, err = depend.CombinedOutput(); err != nil || strings.Contains(string(out), "go.opentelemetry.io") {
		t.Errorf("it depends on tracing, or: %v", err)
	}
}
