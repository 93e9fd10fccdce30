package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// folder is where the binaries are; made by the first test that needs one.
var folder string

func TestMain(m *testing.M) {
	code := m.Run()
	if folder != "" {
		os.RemoveAll(folder)
	}
	os.Exit(code)
}

// built builds what the tests run, once.
var built = sync.OnceValue(func() error {
	var err error
	if folder, err = os.MkdirTemp("", "stillhere-e2e-"); err != nil {
		return err
	}
	// Some tests run the binary as another user.
	if err := os.Chmod(folder, 0o755); err != nil {
		return err
	}
	for _, target := range []struct{ name, path, tags string }{
		{"stillhere", "./cmd/stillhere", ""},
		{"stillhere-crashpoints", "./cmd/stillhere", "crashpoints"},
		{"broker", "./internal/e2e/broker", ""},
	} {
		command := exec.Command("go", "build", "-tags", target.tags, "-o", filepath.Join(folder, target.name), target.path)
		command.Dir = filepath.Join("..", "..")
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", target.path, err, out)
		}
	}
	return nil
})

// binary is the path of a built binary. It skips the test where real processes
// are not wanted.
func binary(t *testing.T, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds binaries, runs real processes and waits for real time, which -short is to avoid")
	}
	if err := built(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, name)
}
