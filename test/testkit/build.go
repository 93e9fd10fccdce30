//go:build unix

package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/source"
)

// folder is where the binaries are; made by the first test that needs one.
var folder string

// Main runs the tests of a package and removes the binaries.
func Main(m *testing.M) {
	code := m.Run()
	if folder != "" {
		os.RemoveAll(folder)
	}
	os.Exit(code)
}

// makeFolder makes the folder, once.
var makeFolder = sync.OnceValue(func() error {
	var err error
	if folder, err = os.MkdirTemp("", "stillhere-process-"); err != nil {
		return err
	}
	return os.Chmod(folder, 0o755) // some tests run a binary as another user
})

// builders build what the tests run, each once and only when it is needed.
var builders = map[string]func() error{
	"stillhere":             builder("stillhere", "./cmd/stillhere"),
	"stillhere-crashpoints": builder("stillhere-crashpoints", "-tags=crashpoints", "./cmd/stillhere"),
	"broker":                builder("broker", "./internal/testkit/broker"),
}

func builder(name string, arguments ...string) func() error {
	return sync.OnceValue(func() error {
		if err := makeFolder(); err != nil {
			return err
		}
		command := exec.Command("go", append([]string{"build", "-o", filepath.Join(folder, name)}, arguments...)...)
		command.Dir = source.Root()
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", name, err, out)
		}
		return nil
	})
}

// needProcesses skips the test unless real processes are wanted.
func needProcesses(t *testing.T) {
	t.Helper()
	if testing.Short() || os.Getenv("STILLHERE_PROCESSES") == "" && os.Getenv("STILLHERE_LONG") == "" {
		t.Skip("runs real processes in real time: STILLHERE_PROCESSES=1 go test ./test/...")
	}
}

// Binary is the path of a binary. It skips the test unless real processes are wanted.
func Binary(t *testing.T, name string) string {
	t.Helper()
	needProcesses(t)
	must.Do(t, builders[name]())
	return filepath.Join(folder, name)
}
