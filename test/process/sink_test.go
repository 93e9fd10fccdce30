//go:build unix

package process_test

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"
)

// The storm of the sink: two lastseen processes share the transitions of a topic
// that grows all the time, and are killed at random instants and between any two
// statements of a transaction, or frozen until the group has given their
// partitions to the other and woken up again. In the end Postgres must hold every
// transition once, and the newest of every user.
//
//	STILLHERE_SINK_KILLS   how often a process is killed [6]
//	STILLHERE_SINK_SEED    for the storm of a run before [random]
func TestNoKillOfTheSinkLosesOrDoublesARow(t *testing.T) {
	path := testkit.Binary(t, "stillhere-crashpoints")
	t.Parallel()
	w := newSinkWorld(t)
	seed := uint64(testkit.Number(t, "STILLHERE_SINK_SEED", rand.Int64N(1_000_000)))
	t.Logf("seed %d", seed)
	s := &sinkStorm{sinkWorld: w}
	s.left.Store(testkit.Number(t, "STILLHERE_SINK_KILLS", 6))
	stop := w.load()
	var running sync.WaitGroup
	for i := range uint64(2) {
		p := &sinkProcess{sinkStorm: s, path: path, instance: fmt.Sprintf("sink-%d", i), random: rand.New(rand.NewPCG(seed, i))}
		s.processes = append(s.processes, p)
		running.Go(p.live)
	}
	running.Wait()
	stop()
	w.caughtUp(90 * time.Second)
	for _, p := range s.processes { // one that has just been started does not handle signals yet
		testkit.Until(t, p.instance+" starts", time.Minute, func() bool { return strings.Contains(p.program.Err.String(), `"starting"`) })
		p.program.Stop()
		p.ended()
	}
	t.Logf("%d kills, %d of them between two statements, %d after a freeze, %d of these between two statements",
		s.kills.Load(), s.crashes.Load(), s.freezes.Load(), s.frozenAt.Load())
	w.judge()
}

type sinkStorm struct {
	*sinkWorld
	processes []*sinkProcess

	left                              atomic.Int64 // kills to come
	kills, crashes, freezes, frozenAt atomic.Int64
}

// sinkProcess is a process that crashes again and again. One goroutine owns it.
type sinkProcess struct {
	*sinkStorm
	path, instance string
	random         *rand.Rand
	program        *testkit.Program
	point          string // where it is to kill or freeze itself, if anywhere
}

// sinkPoints are the named places between the statements of a transaction.
var sinkPoints = []string{"sink.begun", "sink.fenced", "sink.copied", "sink.upserted", "sink.committed"}

// live lets the process live and crash until all kills of the storm are used up,
// and leaves it running.
func (p *sinkProcess) live() {
	for p.start(p.fate()); p.left.Load() > 0; p.start(p.fate()) {
		p.writes()
		p.pause(0, 400*time.Millisecond)
		switch {
		case p.point != "" && !strings.HasSuffix(p.point, ":stop"):
			if !exits(p.program, 2*time.Second) { // it did not come there; it is killed where it is
				p.program.Kill()
			} else {
				p.crashes.Add(1)
			}
		case p.point != "" || p.random.IntN(6) == 0: // a zombie: the other takes its partitions meanwhile
			if p.point != "" && strings.Contains(p.program.Err.String(), "crash point") {
				p.frozenAt.Add(1)
			}
			p.program.Signal(syscall.SIGSTOP)
			p.freezes.Add(1)
			p.pause(6500*time.Millisecond, 9*time.Second)
			p.program.Signal(syscall.SIGCONT)
			p.pause(0, time.Second)
			p.program.Kill()
		default:
			p.program.Kill()
		}
		p.kills.Add(1)
		p.left.Add(-1)
		p.ended()
		p.pause(0, 500*time.Millisecond)
	}
	if p.point != "" { // it must not crash in the calm
		p.program.Kill()
		p.ended()
		p.start("")
	}
}

// fate says where the next process is to crash or to freeze: between two statements
// in half of the cases.
func (p *sinkProcess) fate() string {
	if p.random.IntN(2) == 0 {
		return ""
	}
	point := fmt.Sprintf("%s:%d", sinkPoints[p.random.IntN(len(sinkPoints))], 1+p.random.IntN(10))
	if p.random.IntN(4) == 0 {
		return point + ":stop"
	}
	return point
}

func (p *sinkProcess) start(point string) {
	p.point = point
	p.program = p.lastseen(p.path, p.instance, func(c *exec.Cmd) { c.Env = append(c.Env, "STILLHERE_CRASH="+point) })
}

// writes waits until the store has moved on since the process was started, or the
// process has ended; in a third of the cases it waits for nothing.
func (p *sinkProcess) writes() {
	if p.random.IntN(3) == 0 {
		p.pause(0, time.Second)
		return
	}
	before := p.rows()
	testkit.Within(15*time.Second, func() bool { return p.rows() > before+100 || !p.program.Running() })
}

// ended looks at what a process that has ended had said.
func (p *sinkProcess) ended() {
	log := p.program.Err.String()
	for _, bad := range []string{"panic:", "DATA RACE"} {
		if i := strings.Index(log, bad); i >= 0 {
			p.Errorf("%s said:\n%s", p.instance, testkit.Tail(log[i:min(len(log), i+2000)], 2000))
		}
	}
}

// pause waits for a random time.
func (p *sinkProcess) pause(least, most time.Duration) {
	<-time.After(least + time.Duration(p.random.Int64N(int64(most-least))))
}

// exits reports whether the process ends by itself in time.
func exits(p *testkit.Program, limit time.Duration) bool {
	select {
	case <-p.Ended:
		return true
	case <-time.After(limit):
		return false
	}
}
