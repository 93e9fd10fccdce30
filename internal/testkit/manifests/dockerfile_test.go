package manifests

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func dockerfile(t *testing.T) []Instruction {
	t.Helper()
	return must.Get(ReadDockerfile())(t)
}

func TestTheImageIsStaticAndRunsAsNobody(t *testing.T) {
	t.Parallel()
	all := dockerfile(t)
	froms := Of(all, "", "FROM")
	if last := froms[len(froms)-1]; last.Text != "scratch" {
		t.Errorf("the image is made from %q", last.Text)
	}
	final := froms[len(froms)-1].Stage
	users := Of(all, final, "USER")
	if len(users) != 1 || !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(users[0].Text) {
		t.Errorf("the image runs as %+v; Kubernetes can tell only numbers from root", users)
	}
	build := buildCommand(t, all)
	if !strings.Contains(build, "CGO_ENABLED=0") || !strings.Contains(build, "-trimpath") {
		t.Errorf("the program is built by %q, which is neither static nor the same on every machine", build)
	}
	for _, instruction := range []string{"ENTRYPOINT", "HEALTHCHECK", "CMD"} {
		found := Of(all, final, instruction)
		if len(found) != 1 {
			t.Fatalf("%d instructions %s", len(found), instruction)
		}
		words, err := found[0].Exec()
		if err != nil {
			t.Fatalf("%s needs its JSON form, because there is no shell: %v", instruction, err)
		}
		if instruction == "HEALTHCHECK" && !slices.Equal(words, []string{"/stillhere", "health"}) {
			t.Errorf("health is asked by %v", words)
		}
		if instruction == "ENTRYPOINT" && !slices.Equal(words, []string{"/stillhere"}) {
			t.Errorf("the image runs %v", words)
		}
	}
	labels := Of(all, final, "LABEL")[0].Text
	for _, label := range []string{"title", "source", "licenses", "version", "revision"} {
		if !strings.Contains(labels, "org.opencontainers.image."+label+"=") {
			t.Errorf("there is no label %s", label)
		}
	}
}

// buildCommand is the RUN that makes the program.
func buildCommand(t *testing.T, all []Instruction) string {
	t.Helper()
	for _, run := range Of(all, "build", "RUN") {
		if strings.Contains(run.Text, "go build") {
			return run.Text
		}
	}
	t.Fatal("no RUN has go build")
	return ""
}

func TestTheBuildersGoIsNewEnoughAndPinned(t *testing.T) {
	t.Parallel()
	from := Of(dockerfile(t), "build", "FROM")[0].Text
	m := regexp.MustCompile(`golang:(\d+)\.(\d+)\.(\d+)\b`).FindStringSubmatch(from)
	if m == nil {
		t.Fatalf("%q does not name a version of Go", from)
	}
	mod := must.Get(os.ReadFile(filepath.Join(Root(), "go.mod")))(t)
	wanted := regexp.MustCompile(`(?m)^go (\d+)\.(\d+)\.(\d+)$`).FindStringSubmatch(string(mod))
	if wanted == nil {
		t.Fatal("go.mod does not name a version of Go")
	}
	for i := 1; i <= 3; i++ {
		has, _ := strconv.Atoi(m[i])
		needs, _ := strconv.Atoi(wanted[i])
		if has != needs {
			if has < needs {
				t.Errorf("the builder has Go %s, go.mod needs %s", m[0], wanted[0])
			}
			return
		}
	}
}

func TestEverythingTheProgramIsMadeOfReachesTheBuild(t *testing.T) {
	t.Parallel()
	list := exec.Command("go", "list", "-deps", "-f",
		`{{if not .Standard}}{{if .Module.Main}}{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .EmbedFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`, "./cmd/stillhere")
	list.Dir = Root()
	out := must.Get(list.Output())(t)
	root := must.Get(filepath.EvalSymlinks(Root()))(t)
	needed := []string{"go.mod", "go.sum", "deploy/release/slim"}
	for line := range strings.FieldsSeq(string(out)) {
		relative := must.Get(filepath.Rel(root, line))(t)
		needed = append(needed, filepath.ToSlash(relative))
	}
	if len(needed) < 100 {
		t.Fatalf("the program is said to be made of %d files", len(needed))
	}
	reached := must.Get(buildContext(needed))(t)
	for _, file := range needed {
		if !slices.Contains(reached, file) {
			t.Errorf(".dockerignore keeps %s out of the build", file)
		}
	}
	kept, err := buildContext([]string{".git/config", "docker-compose.yml", "stillhere-data/kafka/x", "README.md", "schemas/golden_test.go", "schemas/testdata/golden/a"})
	if err != nil || len(kept) > 0 {
		t.Errorf("the build is sent %v (%v), which it does not need", kept, err)
	}
}

func TestVersionCommitAndDateAreStampedWhereTheProgramKeepsThem(t *testing.T) {
	t.Parallel()
	build := buildCommand(t, dockerfile(t))
	source := must.Get(os.ReadFile(filepath.Join(Root(), "cmd", "stillhere", "version.go")))(t)
	// The linker leaves variables alone that are made by more than a constant.
	kept := regexp.MustCompile(`(?ms)^package main$.*^var version, commit, date string$`)
	for _, stamp := range []string{"-X main.version=$VERSION", "-X main.commit=$REVISION", "-X main.date=$CREATED"} {
		if !strings.Contains(build, stamp) || !kept.Match(source) {
			t.Errorf("%s stamps nothing: the build is %q", stamp, build)
		}
	}
}

// buildContext are the files of the repository that reach a build, as
// .dockerignore says: paths from its root, with slashes.
func buildContext(files []string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(Root(), ".dockerignore"))
	if err != nil {
		return nil, err
	}
	var kept []string
	for _, file := range files {
		ignored := false
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			pattern, negated := strings.CutPrefix(line, "!")
			if ignores(pattern, file) {
				ignored = !negated
			}
		}
		if !ignored {
			kept = append(kept, file)
		}
	}
	return kept, nil
}

// ignores reports whether a pattern names the file or a folder above it; ** may
// stand at the front, for any folders.
func ignores(pattern, file string) bool {
	parts := strings.Split(file, "/")
	rest, anywhere := strings.CutPrefix(pattern, "**/")
	for from := range parts {
		for to := from + 1; to <= len(parts); to++ {
			if ok, err := path.Match(rest, strings.Join(parts[from:to], "/")); ok && err == nil {
				return true
			}
		}
		if !anywhere {
			break
		}
	}
	return false
}
