//go:build unix

package testkit

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/source"
)

// Previous is the path of the program that operators upgrade from, and its commit: see previousCommit. It
// skips the test unless real processes are wanted, or if there is no history to build a program of.
func Previous(t *testing.T) (path, commit string) {
	t.Helper()
	needProcesses(t)
	commit, err := previousCommit()
	if err != nil {
		t.Skip("NOT CHECKED: no program of an earlier commit can be built here: " + err.Error())
	}
	must.Do(t, buildPrevious())
	return filepath.Join(folder, "stillhere-previous"), commit
}

// previousCommit is STILLHERE_PREVIOUS (a tag or a commit), else the newest tag v* before this commit. Until
// there is a release it is this commit itself: every process is replaced under load, but no format changes.
func previousCommit() (commit string, err error) {
	name := os.Getenv("STILLHERE_PREVIOUS")
	if name == "" {
		name, _ = git("describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^")
	}
	return git("rev-parse", "--verify", cmp.Or(name, "HEAD")+"^{commit}")
}

// git runs git on the repository.
func git(arguments ...string) (string, error) {
	command := exec.Command("git", append([]string{"-C", source.Root()}, arguments...)...)
	out, err := command.Output()
	return strings.TrimSpace(string(out)), err
}

// buildPrevious builds the program of previousCommit. With -trimpath the build cache keeps it.
var buildPrevious = sync.OnceValue(func() error {
	if err := makeFolder(); err != nil {
		return err
	}
	commit, err := previousCommit()
	if err != nil {
		return err
	}
	tree := filepath.Join(folder, "previous")
	script := `mkdir "$2" && git -C "$1" archive "$3" | tar -x -C "$2" && cd "$2" &&
		go build -trimpath -o ../stillhere-previous ./cmd/stillhere`
	if out, err := exec.Command("sh", "-c", script, "sh", source.Root(), tree, commit).CombinedOutput(); err != nil {
		return fmt.Errorf("building the program of %s: %w\n%s", commit, err, out)
	}
	return os.RemoveAll(tree)
})
