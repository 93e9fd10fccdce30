//go:build unix

package process_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/test/testkit"
)

// upgradeOrder is the order of deploy/UPGRADE.md, by process. A rollback goes backwards.
var upgradeOrder = []string{"api", "lastseen", "fanout", "detector-a", "detector-b", "ingest-a", "ingest-b"}

// upgradeStep is how long users come and go between two replacements.
const upgradeStep = 2 * time.Second

// upgradeWorld is a pipeline of which each process is either the previous program or this one.
type upgradeWorld struct {
	*testing.T
	old, new  string // paths of the programs
	flags     []string
	policy    liveness.Settings
	processes map[string]*testkit.Dev
	kafka     string
	database  string
}

// TestAnUpgradeAndItsRollbackUnderLoadLoseAndDoubleNothing replaces every process of the previous
// program by this one and back, one by one in the written order, while users come, stay, go and are
// read. What was committed must be what the rules say of the heartbeats, whoever judged them.
func TestAnUpgradeAndItsRollbackUnderLoadLoseAndDoubleNothing(t *testing.T) {
	w := &upgradeWorld{T: t, new: testkit.Binary(t, "stillhere"), processes: map[string]*testkit.Dev{}}
	var commit string
	w.old, commit = testkit.Previous(t)
	t.Logf("the previous program is of %s", commit)
	t.Parallel()
	w.begin()
	w.run(w.old, "topics", "apply", "--partitions", fmt.Sprint(sinkPartitions), "--replication", "1", "--kafka-brokers", w.kafka)
	w.run(w.old, "migrate", "--postgres", w.database)
	var starting sync.WaitGroup
	for _, name := range upgradeOrder {
		starting.Go(func() { w.start(name, w.old) })
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	load := w.startLoad()
	begun := time.Now()
	w.run(w.new, "topics", "apply", "--kafka-brokers", w.kafka)
	w.run(w.new, "migrate", "--postgres", w.database)
	for _, name := range upgradeOrder {
		w.replace(name, w.new)
		load.pass(upgradeStep)
	}
	for _, name := range slices.Backward(upgradeOrder) {
		w.replace(name, w.old)
		load.pass(upgradeStep)
	}
	t.Logf("upgraded and rolled back in %s", time.Since(begun).Round(100*time.Millisecond))
	load.end()
	w.judge(load)
}

// begin starts the servers and chooses the addresses and the policy.
func (w *upgradeWorld) begin() {
	w.Helper()
	_, w.database = testkit.Postgres(w.T)
	redis := startRedis(w.T, "")
	_, w.kafka = testkit.Broker(w.T)

	w.policy = liveness.Defaults()
	w.policy.HeartbeatInterval, w.policy.OnlineTTL, w.policy.OfflineDebounce = time.Second, 6*time.Second, 2*time.Second
	w.policy.AwayTTL, w.policy.ReconnectWindow = 12*time.Second, 4*time.Second
	w.flags = append(testkit.PolicyFlags(w.policy), "--kafka-brokers", w.kafka, "--redis", redis.address, "--postgres", w.database,
		"--followers", "all")
	for _, name := range upgradeOrder {
		w.processes[name] = testkit.NewRole(w.T)
	}
}

// run runs a command that ends by itself.
func (w *upgradeWorld) run(path string, arguments ...string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, path, arguments...).CombinedOutput(); err != nil {
		w.Fatalf("%s: %v\n%s", arguments, err, out)
	}
}

// start starts a process and waits until it is ready.
func (w *upgradeWorld) start(name, path string) {
	w.Helper()
	h := w.processes[name]
	role, _, _ := strings.Cut(name, "-")
	h.Run(path, role, name, nil, w.flags...)
	ready := func() bool { return strings.Contains(h.Err.String(), `"msg":"ready"`) }
	if !testkit.Within(time.Minute, func() bool { return ready() || !h.Running() }) || !ready() {
		w.Errorf("%s of %s is not ready:\n%s", name, filepath.Base(path), testkit.Tail(h.Err.String(), 3000))
	}
}

// replace stops a process as a deployment does, and starts the other program in its place.
func (w *upgradeWorld) replace(name, path string) {
	w.Helper()
	begun := time.Now()
	w.stop(name)
	w.start(name, path)
	if w.Failed() {
		w.FailNow()
	}
	w.Logf("%-10s is %s after %s", name, filepath.Base(path), time.Since(begun).Round(100*time.Millisecond))
}

// stop stops a process and looks at what it had said.
func (w *upgradeWorld) stop(name string) {
	w.Helper()
	h := w.processes[name]
	h.Stop()
	log := h.Err.String()
	for _, bad := range []string{"panic:", "ALARM", "DATA RACE", "dead-letter", "log was cut", "a task failed", "cannot be decoded"} {
		if i := strings.Index(log, bad); i >= 0 {
			w.Errorf("%s said:\n%s", name, testkit.Tail(log[max(0, i-200):min(len(log), i+1500)], 2000))
		}
	}
}
