//go:build unix

package storm_test

import (
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// detectorProcess is a detector that crashes again and again. One goroutine owns it.
type detectorProcess struct {
	*storm
	instance string
	random   *rand.Rand
	program  *testkit.Program // nil: none
}

func (s *storm) detector(instance string, stream uint64) *detectorProcess {
	return &detectorProcess{storm: s, instance: instance, random: rand.New(rand.NewPCG(s.seed, 1+stream))}
}

// live lets the detector meet one fate after the other and leaves it running.
func (d *detectorProcess) live() {
	for f, more := d.next(); more; f, more = d.next() {
		if f.at != "" {
			d.end()
		}
		if d.program == nil {
			d.start(f.at)
		}
		d.meet(f)
	}
	if d.program == nil {
		d.start("")
	}
}

// meet lets one fate come true.
func (d *detectorProcess) meet(f fate) {
	switch {
	case f.at != "" && f.freeze > 0:
		d.freezeAt(f)
		return
	case f.at != "":
		d.dieAt(f)
	case f.freeze > 0:
		<-time.After(f.life)
		d.freeze(f.freeze)
		return // it lives on, and must find out what happened
	case f.stop:
		<-time.After(f.life)
		d.stop()
		d.ended()
	default:
		<-time.After(f.life)
		d.kill()
	}
	<-time.After(f.down)
}

func (d *detectorProcess) kill() {
	d.program.Kill()
	d.count("kills", 1)
	d.ended()
}

// patience is how long a detector may take to come to its crash point: it may have
// to wait for partitions, and for a restart of the other.
const patience = 15 * time.Second

// dieAt waits until the detector has killed itself. The group may have given it
// nothing to do; then it is killed, and another one has to come to that point.
func (d *detectorProcess) dieAt(f fate) {
	select {
	case <-d.program.Ended:
	case <-time.After(patience):
	}
	if !d.program.Running() && d.program.Command.ProcessState.ExitCode() == 1 { // there was no broker to be asked at the start
		d.count("starts without a broker", 1)
		f.tries-- // it was not the detector's fault
		d.again(f)
		d.ended()
		<-time.After(time.Second)
		return
	}
	d.program.Kill()
	d.count("kills", 1)
	if point, ok := d.point(); ok {
		d.count("crashes", 1)
		d.count("at "+point, 1)
	} else {
		d.again(f)
	}
	d.ended()
}

// freezeAt waits until the detector has frozen itself, and resumes it.
func (d *detectorProcess) freezeAt(f fate) {
	if !testkit.Within(patience, func() bool { _, frozen := d.point(); return frozen }) {
		d.again(f)
		d.kill()
		return
	}
	point, _ := d.point()
	d.count("at "+point, 1)
	d.count("freezes", 1)
	<-time.After(f.freeze)
	d.wake()
}

// point is the crash point that the detector has come to.
func (d *detectorProcess) point() (string, bool) {
	_, rest, ok := strings.Cut(d.program.Err.String(), "crash point ")
	point, _, _ := strings.Cut(rest, "\n")
	return point, ok
}

// freeze freezes the detector for a time. It does not know how long it was away.
func (d *detectorProcess) freeze(long time.Duration) {
	d.count("freezes", 1)
	d.program.Signal(syscall.SIGSTOP)
	<-time.After(long)
	d.wake()
}

// wake lets a frozen detector find out what happened.
func (d *detectorProcess) wake() {
	d.program.Signal(syscall.SIGCONT)
	<-time.After(between(d.random, 100*time.Millisecond, 2*time.Second))
	d.program.Signal(syscall.SIGCONT) // it may have been slow to freeze itself
}

// end ends a detector that may be running.
func (d *detectorProcess) end() {
	if d.program != nil {
		d.stop()
		d.ended()
	}
}

// stop is a planned restart's first half. While the other detector is frozen or
// has just crashed a stop may find no way to commit what is in hand; then it must say
// so, and the successor does it again.
func (d *detectorProcess) stop() {
	d.Helper()
	d.count("planned restarts", 1)
	d.program.Signal(syscall.SIGTERM)
	switch code := d.program.Wait(30 * time.Second); {
	case code == 0:
	case d.withoutBroker():
		d.count("starts without a broker", 1)
	case code == -1 && !strings.Contains(d.program.Err.String(), `"msg":"starting"`): // it could not catch signals yet
		d.count("kills", 1)
	case strings.Contains(d.program.Err.String(), "stillhere: detector: "), strings.Contains(d.program.Err.String(), "context canceled"):
		d.count("stops without a commit", 1)
	default:
		d.Errorf("%s stopped with exit code %d:\n%s", d.instance, code, testkit.Tail(d.program.Err.String(), 2000))
	}
}

// withoutBroker reports whether the detector has ended because there was no broker to be
// asked when it was started.
func (d *detectorProcess) withoutBroker() bool {
	return d.until != nil && !d.program.Running() && d.program.Command.ProcessState.ExitCode() == 1 &&
		!strings.Contains(d.program.Err.String(), `"msg":"starting"`)
}

// startAgain does what a supervisor does with one that has ended so.
func (d *detectorProcess) startAgain() {
	d.Helper()
	if d.withoutBroker() {
		d.count("starts without a broker", 1)
		d.ended()
		d.start("")
	}
}

func (d *detectorProcess) start(crash string) {
	brokers := d.config.Brokers
	if d.through != nil {
		brokers = d.through
	}
	arguments := append([]string{"detector", "--instance", d.instance, "--admin=", "--kafka-brokers", strings.Join(brokers, ",")}, testkit.PolicyFlags(d.policy)...)
	arguments = append(arguments, d.flags...)
	command := append(append(slices.Clone(d.wrap), d.path), arguments...)
	d.program = testkit.Start(d.T, command[0], func(c *exec.Cmd) {
		c.Env = append(append(c.Env, d.environment...), "STILLHERE_CRASH="+crash)
	}, command[1:]...)
}

// ended counts what a process that has ended had done.
func (d *detectorProcess) ended() {
	d.Helper()
	log := d.program.Err.String()
	d.count("restores", strings.Count(log, `"msg":"restored"`))
	d.count("revocations", strings.Count(log, `"msg":"partitions revoked"`))
	d.count("sessions ended", strings.Count(log, "the session ended"))
	d.count("hanging transactions", strings.Count(log, "a transaction of this process hangs"))
	log = d.unexpected(log)
	for _, bad := range []string{"panic:", "ALARM", "DATA RACE", "log was cut", "log was truncated",
		"retention has overtaken", "records are missing", "a task failed"} {
		if i := strings.Index(log, bad); i >= 0 {
			d.Errorf("%s said:\n%s", d.instance, testkit.Tail(log[i:min(len(log), i+2000)], 2000))
		}
	}
	d.program.Forget()
	d.program = nil
}

// unexpected is a log without the lines that are expected in this storm.
func (s *storm) unexpected(log string) string {
	lines := slices.DeleteFunc(strings.SplitAfter(log, "\n"), func(line string) bool {
		return slices.ContainsFunc(s.expected, func(text string) bool { return text != "" && strings.Contains(line, text) })
	})
	return strings.Join(lines, "")
}

// visit lets the detector join the group and leave it, until over: every join and
// every leave moves partitions.
func (d *detectorProcess) visit(over <-chan struct{}) {
	for {
		d.start("")
		joined := testkit.Within(patience, func() bool { return strings.Contains(d.program.Err.String(), `"msg":"partitions assigned"`) })
		if joined {
			d.count("joins", 1)
		}
		stay := time.NewTimer(between(d.random, 100*time.Millisecond, 2*time.Second))
		select {
		case <-stay.C:
		case <-over:
		}
		stay.Stop()
		if d.random.IntN(3) == 0 {
			d.kill()
		} else {
			d.end()
		}
		d.leave()
		select {
		case <-over:
			return
		case <-time.After(between(d.random, 10*time.Millisecond, 3*time.Second)):
		}
	}
}

// leave takes the detector's name out of the group, as an operator does who makes a
// deployment smaller; else the group would wait for it to come back.
func (d *detectorProcess) leave() {
	d.Helper()
	left, err := d.admin.LeaveGroup(d.Context(), kadm.LeaveGroup("stillhere.detector").InstanceIDs("stillhere.detector."+d.instance))
	must.Do(d, err)
	if left.Ok() {
		d.count("leaves", 1)
	}
}
