package laws

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// loop is what the programs of docs/bridges have in common: from their settings to the end of run.
var loop = regexp.MustCompile(`(?ms)^const \{ env \} = process.*^async function run\(.*?^\}\n`)

// programs are the blocks of JavaScript of the pages of docs/bridges, by page.
func programs(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, path := range filesOf(t, "docs/bridges") {
		for _, block := range fenced.FindAllStringSubmatch(string(must.Get(os.ReadFile(path))(t)), -1) {
			if block[1] == "js" {
				all[filepath.Base(path)] = append(all[filepath.Base(path)], block[2])
			}
		}
	}
	return all
}

func node(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("node")
	if err != nil {
		t.Skip(err)
	}
	return path
}

func TestEveryBridgeHasFortyLinesAndTheSameLoop(t *testing.T) {
	t.Parallel()
	node, common := node(t), map[string]bool{}
	pages := programs(t)
	if len(pages) < 4 {
		t.Fatalf("%d pages of docs/bridges have programs, want 4", len(pages))
	}
	for page, blocks := range pages {
		common[loop.FindString(blocks[0])] = true
		for i, block := range blocks {
			lines := strings.Split(strings.TrimSuffix(block, "\n"), "\n")
			if len(lines) > 40 {
				t.Errorf("%s has a program of %d lines, want 40 at most", page, len(lines))
			}
			if wide := slices.IndexFunc(lines, func(line string) bool { return len(line) > 120 }); wide >= 0 {
				t.Errorf("%s has a line of more than 120 columns: %s", page, lines[wide])
			}
			program := filepath.Join(t.TempDir(), fmt.Sprint(i, ".mjs"))
			must.Do(t, os.WriteFile(program, []byte(block), 0o600))
			if out, err := exec.CommandContext(t.Context(), node, "--check", program).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", page, err, out)
			}
		}
	}
	if len(common) != 1 || common[""] {
		t.Errorf("the bridges have %d different loops, want 1: mend all of them together", len(common))
	}
}

// told is a request of a bridge.
type told struct {
	ID     string `json:"gateway_id"`
	Epoch  int64  `json:"gateway_epoch"`
	Begins bool   `json:"replace_begins"`
	Ends   bool   `json:"replace_ends"`
	Events []struct {
		Event, Reason string
		User          string `json:"user_id"`
	}
}

func (b *told) String() string {
	var words []string
	for _, e := range b.Events {
		words = append(words, strings.TrimSpace(strings.Join([]string{e.User, e.Event, e.Reason}, " ")))
	}
	if b.Begins {
		words = append(words, "begins")
	}
	if b.Ends {
		words = append(words, "ends")
	}
	return strings.Join(words, ", ")
}

func TestABridgeLosesNoEventAndNoOrder(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	requests, answers := make(chan *told), make(chan int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := &told{}
		if err := json.NewDecoder(r.Body).Decode(body); err != nil || r.URL.Path != "/presence/connections" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		status := http.StatusAccepted
		if body.String() != "" {
			select {
			case requests <- body:
				status = <-answers
			case <-ctx.Done():
			}
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"accepted":0}`)
	}))
	defer server.Close()

	dir := t.TempDir()
	library := filepath.Join(dir, "node_modules", "socket.io")
	must.Do(t, os.MkdirAll(library, 0o700))
	must.Do(t, os.WriteFile(filepath.Join(library, "package.json"), []byte(`{"exports":"./socketio.mjs"}`), 0o600))
	standIn := must.Get(os.ReadFile("testdata/socketio.mjs"))(t)
	must.Do(t, os.WriteFile(filepath.Join(library, "socketio.mjs"), standIn, 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "server.mjs"), []byte(programs(t)["socketio.md"][0]), 0o600))
	bridge := exec.CommandContext(ctx, node(t), "server.mjs")
	bridge.Stderr, bridge.Dir = t.Output(), dir
	bridge.Env = append(os.Environ(), "STILLHERE_URL="+server.URL, "GATEWAY_ID=gw-1")
	happens := must.Get(bridge.StdinPipe())(t)
	must.Do(t, bridge.Start())
	defer func() { _ = bridge.Wait() }()
	defer cancel()

	var epoch int64
	for i, step := range []struct {
		happens string // before the request
		want    string
		answer  int
	}{
		{"", "begins", 202},
		{"", "ends", 202},
		{"connection 1", "1 connected", 202},
		{"idle 1", "1 idle", 202},
		{"connection bob", "", 0}, // no user id
		{"connection 2", "2 connected", 503},
		{"", "begins", 202},
		{"", "1 idle, 2 connected", 202},
		{"", "ends", 202},
		{"disconnect 1 client namespace disconnect", "1 disconnected closed", 503},
		{"", "begins", 503},
		{"", "begins", 202},
		{"", "2 connected", 202},
		{"", "ends", 503},
		{"", "begins", 202},
		{"", "2 connected", 202},
		{"", "ends", 202},
		{"", "1 disconnected closed", 202},
		{"hang", "begins", 202}, // for 10 s
		{"", "2 connected", 202},
		{"", "ends", 202},
		{"disconnect 2 transport close", "2 disconnected lost", 202},
	} {
		if step.happens != "" {
			must.Get(io.WriteString(happens, step.happens+"\n"))(t)
		}
		if step.want == "" {
			continue
		}
		select {
		case got := <-requests:
			epoch = max(epoch, got.Epoch)
			if got.String() != step.want || got.ID != "gw-1" || got.Epoch != epoch || epoch == 0 {
				t.Fatalf("request %d is %q of %s since %d, want %q of gw-1 since %d", i, got, got.ID, got.Epoch, step.want, epoch)
			}
			answers <- step.answer
		case <-ctx.Done():
			t.Fatalf("request %d never came, want %q", i, step.want)
		}
	}
}
