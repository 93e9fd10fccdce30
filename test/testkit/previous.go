//go:build unix

package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/source"
)

// Previous is the path of the program of an earlier commit, and the commit: see previousCommit. It
// skips the test unless real processes are wanted, or if there is no earlier commit to build.
func Previous(t *testing.T) (path, commit string) {
	t.Helper()
	needProcesses(t)
	commit, why := previousCommit()
	if commit == "" {
		t.Skip("NOT CHECKED: no program of an earlier commit can be built here: " + why)
	}
	if err := buildPrevious(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, "stillhere-previous"), commit
}

// previousCommit names the program that operators upgrade from: STILLHERE_PREVIOUS (a tag or a
// commit), else the newest tag v* before this commit, else what deploy/PREVIOUS names. Where a
// shallow clone lacks it, it is the earliest commit that the clone has.
func previousCommit() (commit, why string) {
	head, err := git("rev-parse", "HEAD")
	if err != nil {
		return "", "this is no clone: " + err.Error()
	}
	name := os.Getenv("STILLHERE_PREVIOUS")
	if name == "" {
		name, _ = git("describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^")
	}
	if name == "" {
		text, _ := os.ReadFile(filepath.Join(source.Root(), "deploy", "PREVIOUS"))
		name = strings.TrimSpace(string(text))
	}
	if commit, err = git("rev-parse", "--verify", "--quiet", name+"^{commit}"); err == nil {
		return commit, ""
	}
	if shallow, _ := git("rev-parse", "--is-shallow-repository"); shallow != "true" {
		return "", fmt.Sprintf("%q is not in the history; deploy/PREVIOUS or STILLHERE_PREVIOUS must name a commit that is", name)
	}
	all, err := git("rev-list", "HEAD")
	lines := strings.Fields(all)
	if err != nil || len(lines) < 2 {
		return "", "the clone has no commit before " + head + "; fetch more of the history"
	}
	return lines[len(lines)-1], ""
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
	commit, _ := previousCommit()
	tree := filepath.Join(folder, "previous")
	script := `mkdir "$2" && git -C "$1" archive "$3" | tar -x -C "$2" && cd "$2" &&
		go build -trimpath -o ../stillhere-previous ./cmd/stillhere`
	if out, err := exec.Command("sh", "-c", script, "sh", source.Root(), tree, commit).CombinedOutput(); err != nil {
		return fmt.Errorf("building the program of %s: %w\n%s", commit, err, out)
	}
	return os.RemoveAll(tree)
})
