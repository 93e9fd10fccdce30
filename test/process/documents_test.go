//go:build unix

package process_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/test/testkit"
)

// A document's blocks of sh are run by bash, in order, on one dev. A step is a paragraph of a
// block; its lines "# => part" are parts of what it prints. It is repeated until it succeeds and
// prints them all, because what one command writes another may read a moment later. A step with
// the comment "# Ctrl-C" is ended when it has printed them.
var fence = regexp.MustCompile("(?ms)^( *)```sh\n(.*?)^ *```$")

// steps are the paragraphs of a document's blocks, without the indentation of lists.
func steps(document string) (all []string) {
	for _, found := range fence.FindAllStringSubmatch(document, -1) {
		block := regexp.MustCompile("(?m)^"+found[1]).ReplaceAllString(found[2], "")
		for step := range strings.SplitSeq(strings.TrimSpace(block), "\n\n") {
			all = append(all, step)
		}
	}
	return all
}

// shell runs steps that are files in $steps: n.sh, n.want and n.out.
const shell = `
set -uE -o pipefail
trap 'kill $(jobs -p) 2>/dev/null' EXIT
printed() { # the step has printed all parts
  local part
  while IFS= read -r part; do
    grep -aqF -- "$part" "$steps/$1.out" || return 1
  done <"$steps/$1.want"
}
endless() {
  local try job
  set -m
  ( . "$steps/$1.sh" ) >"$steps/$1.out" 2>&1 &
  job=$!
  set +m
  for try in $(seq 200); do
    printed "$1" && break
    sleep 0.1
  done
  kill -- "-$job" 2>/dev/null
  printed "$1"
}
step() {
  local try
  for try in $(seq 60); do
    failed=
    trap 'failed=1' ERR
    . "$steps/$1.sh" >"$steps/$1.out" 2>&1
    trap - ERR
    [ -z "$failed" ] && printed "$1" && return
    sleep 0.25
  done
  return 1
}
for n in $(seq 0 $(($(ls "$steps"/*.sh | wc -l) - 1))); do
  how=step
  ! grep -q '# Ctrl-C' "$steps/$n.sh" || how=endless
  "$how" "$n" && continue
  echo "this step fails, or does not print its parts:"
  cat "$steps/$n.sh" "$steps/$n.want"
  echo "It printed:"
  cat "$steps/$n.out"
  exit 1
done
`

func TestEveryCommandOfADocumentDoesWhatItSays(t *testing.T) {
	t.Parallel()
	root := must.Get(filepath.Abs(filepath.Join("..", "..")))(t)
	folder := t.TempDir()
	for _, part := range []string{"schemas", "fanout"} { // a checkout, which is not written to
		must.Do(t, os.Symlink(filepath.Join(root, part), filepath.Join(folder, part)))
	}
	dev := testkit.NewDev(t)
	dev.Dir = filepath.Join(folder, "stillhere-data")
	dev.Up()
	named := testkit.NewDev(t, "--ids", "text") // of the pages about users who have names
	named.Up()
	page := testkit.FreePort(t)
	others := []string{"127.0.0.1:9000", testkit.FreePort(t), "127.0.0.1:5500", page,
		"server 5500", "server " + page[strings.LastIndexByte(page, ':')+1:], "go run ./cmd/stillhere", "stillhere"}
	documents := []string{"README.md"}
	must.Do(t, filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			path, err = filepath.Rel(root, path)
			documents = append(documents, filepath.ToSlash(path))
		}
		return err
	}))
	run := 0
	t.Run("documents", func(t *testing.T) {
		for _, document := range documents {
			text := must.Get(os.ReadFile(filepath.Join(root, document)))(t)
			all := steps(string(text))
			run += len(all)
			if len(all) == 0 {
				continue
			}
			t.Run(document, func(t *testing.T) {
				t.Parallel()
				on := dev
				if filepath.Base(document) == "names.md" {
					on = named
				}
				runSteps(t, on, folder, all, strings.NewReplacer(append([]string{"127.0.0.1:8080", on.Listen,
					"127.0.0.1:9092", on.Broker, "127.0.0.1:9090", on.Admin}, others...)...))
			})
		}
	})
	if run < 40 {
		t.Errorf("%d commands are found: the form of the documents has changed", run)
	}
	response := must.Get(dev.Client.Get("http://" + dev.Admin + "/metrics"))(t)
	defer response.Body.Close()
	text := must.Get(io.ReadAll(response.Body))(t)
	checkMetricsPage(t, string(text), 80)
}

func runSteps(t *testing.T, dev *testkit.Dev, folder string, all []string, addresses *strings.Replacer) {
	files := t.TempDir()
	for i, step := range all {
		var code, want strings.Builder
		for line := range strings.Lines(addresses.Replace(step) + "\n") {
			if part, expected := strings.CutPrefix(line, "# => "); expected {
				want.WriteString(part)
			} else {
				code.WriteString(line)
			}
		}
		for _, tool := range []string{"kcat", "protoc", "python3", "openssl"} {
			if _, err := exec.LookPath(tool); err != nil && strings.Contains(code.String(), tool+" ") {
				t.Skipf("%s is not installed", tool)
			}
		}
		must.Do(t, os.WriteFile(filepath.Join(files, fmt.Sprint(i, ".sh")), []byte(code.String()), 0o600))
		must.Do(t, os.WriteFile(filepath.Join(files, fmt.Sprint(i, ".want")), []byte(want.String()), 0o600))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	bash := exec.CommandContext(ctx, "bash", "-c", shell)
	bash.Dir, bash.WaitDelay = folder, time.Second
	bash.Env = append(os.Environ(), "steps="+files,
		"PATH="+filepath.Dir(testkit.Binary(t, "stillhere"))+":"+os.Getenv("PATH"),
		"STILLHERE_URL=http://"+dev.Listen, "STILLHERE_KAFKA_BROKERS="+dev.Broker)
	if out, err := bash.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
