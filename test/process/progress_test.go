//go:build unix

package process_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// percent is what a bar says of how much is done, rows how many rows it says, and number what a line says that has no
// end to reach.
var (
	percent = regexp.MustCompile(`\] +([0-9]+)%`)
	number  = regexp.MustCompile(`\r([0-9,]+) (?:of [0-9,]+ )?(?:users erased|records, )`)
	looked  = regexp.MustCompile(`\rlooked at ([0-9]+) transitions  up to 20`)
	rows    = regexp.MustCompile(`%  [0-9hms]+ left  ([0-9,]+) rows`)
)

// columns is how wide the terminal is.
const columns = 80

// advances runs a command on a terminal, where its progress must advance, fit in one line and be gone at the end, and then
// in a pipe, where nothing may be written over.
func (k *keyboard) advances(step *regexp.Regexp, arguments ...string) {
	k.Helper()
	k.progresses(step, arguments...)
	p := testkit.Start(k.T, testkit.Binary(k.T, "stillhere"), func(c *exec.Cmd) { c.Env = append(c.Env, k.env...) }, arguments...)
	if code := p.Wait(time.Minute); code != 0 || strings.Contains(p.Out.String()+p.Err.String(), "\r") {
		k.Errorf("stillhere %q in a pipe: code %d, wrote %q", arguments, code, testkit.Tail(p.Err.String(), 2000))
	}
}

// progresses is advances on the terminal alone, for what can be done once.
func (k *keyboard) progresses(step *regexp.Regexp, arguments ...string) {
	k.Helper()
	out, code := k.onTerminalOf(columns, "", "", arguments...)
	var steps []int
	for _, found := range step.FindAllStringSubmatch(out, -1) {
		n := must.Get(strconv.Atoi(strings.ReplaceAll(found[1], ",", "")))(k)
		steps = append(steps, n)
	}
	if code != 0 || len(steps) < 2 || !slices.IsSorted(steps) || steps[0] == steps[len(steps)-1] {
		k.Errorf("stillhere %q: code %d, progress %v:\n%q", arguments, code, steps, testkit.Tail(out, 2000))
	}
	if !strings.HasSuffix(out, "\r\n") && !strings.HasSuffix(out, " \r") {
		k.Errorf("stillhere %q ends with %q: its progress stays", arguments, testkit.Tail(out, 200))
	}
	for shown := range strings.SplitSeq(strings.ReplaceAll(out, "\r\n", "\r"), "\r") {
		if step.MatchString("\r"+shown) && utf8.RuneCountInString(shown) >= columns {
			k.Errorf("stillhere %q shows a progress of more than a line: %q", arguments, shown)
		}
	}
}

// beatsOf writes a beat for each of so many users straight to Kafka, each in a record of its own.
func (k *keyboard) beatsOf(users int) {
	k.Helper()
	producer := kafkatest.Producer(k, kafka.Config{Brokers: []string{k.Broker}})
	var all []schemas.Outgoing
	var err error
	for id := schemas.UserID(1); err == nil && id <= schemas.UserID(users); id++ {
		all = append(all, schemas.Outgoing{Topic: schemas.Heartbeats, Partition: schemas.PartitionOf(id, testkit.DevPartitions),
			Value: schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: id, Device: 1, Kind: schemas.Web}})})
		if len(all) == 1000 {
			err, all = producer.AppendSync(k.Context(), all...), all[:0]
		}
	}
	must.Do(k, err)
}

func TestLongWorkShowsItsProgressOnATerminalAndNotInAPipe(t *testing.T) {
	t.Parallel()
	k := atKeyboard(t)
	const users = 30_000
	k.beatsOf(users)
	testkit.Until(t, "all are online", 2*time.Minute, func() bool { return k.Metric(`stillhere_users\{kind="any",state="online"\}`) >= users })
	folder := t.TempDir()
	edges := filepath.Join(folder, "edges.csv")
	var lines strings.Builder
	for i := range 250_000 {
		fmt.Fprintf(&lines, "%d,%d\n", i%1000+1, i+2000)
	}
	ids := filepath.Join(folder, "seen.csv")
	var seen strings.Builder
	for id := range 45_000 {
		fmt.Fprintf(&seen, "%d,2026-01-01T00:00:00Z\n", 1_000_000+id)
	}
	must.Do(t, os.WriteFile(ids, []byte(seen.String()), 0o600))
	must.Do(t, os.WriteFile(edges, []byte(lines.String()), 0o600))
	k.advances(rows, "replay", "--output", "csv", "--out", filepath.Join(folder, "changes.csv"))
	k.advances(percent, "rebuild", "lastseen", "--sqlite", filepath.Join(k.Dir, "stillhere.db"))
	k.advances(number, "backtest", "--policy", "default", "--policy", "chat", "--policy", "calm", "--warm-up", "0s")
	k.advances(percent, "graph", "edges", "--file", edges, "--sqlite", filepath.Join(folder, "graph.db"), "--from-start")
	k.advances(percent, "import", "last-seen", ids, "--sqlite", filepath.Join(k.Dir, "stillhere.db"))
	k.advances(looked, "explain", "1", "--at", "now")
	erased := []string{"erase", "--yes", "--kafka-brokers", k.Broker}
	for id := range 200 {
		erased = append(erased, strconv.Itoa(id+1))
	}
	k.advances(number, erased...)
}

func TestTheErasureOfATenantShowsItsProgress(t *testing.T) {
	t.Parallel()
	k := atKeyboard(t, "--ids", "text")
	store := []string{"--sqlite", filepath.Join(k.Dir, "stillhere.db")}
	for _, tenant := range []string{"acme", "zeta"} {
		var beats []string
		for i := range 1500 {
			beats = append(beats, fmt.Sprintf(`{"user_id":"u%d","device_id":"d","tenant":%q}`, i, tenant))
		}
		status, answer, err := k.Ask(http.MethodPost, "/presence/heartbeats", "application/json", io.Reader(strings.NewReader(`{"beats":[`+strings.Join(beats, ",")+`]}`)))
		if err != nil || status != http.StatusAccepted {
			t.Fatalf("%d %s, %v", status, answer, err)
		}
		k.sees("1500", append([]string{"tenants", "show", "--table", "users"}, store...)...)
		k.progresses(number, append([]string{"erase", "--all", "--tenant", tenant, "--yes"}, store...)...)
	}
}
