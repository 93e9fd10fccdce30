//go:build unix

package process_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// program is a process that a test has started. One goroutine at a time may use
// it.
type program struct {
	*testing.T
	name     string
	command  *exec.Cmd
	stdin    io.WriteCloser
	out, err transcript
	ended    chan struct{} // closed when it has ended

	forgotten bool // what it said is of no interest any more
}

// forget gives back the memory of a process that has ended.
func (p *program) forget() {
	p.forgotten = true
	p.out.drop()
	p.err.drop()
}

// transcript is what a process has written so far.
type transcript struct {
	mu   sync.Mutex
	text []byte
}

func (w *transcript) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, b...)
	return len(b), nil
}

func (w *transcript) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = nil
}

func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text)
}

// lines are those that are complete.
func (w *transcript) lines() []string {
	text := w.String()
	return strings.Split(text, "\n")[:strings.Count(text, "\n")]
}

// start starts a process, which ends with the test at the latest. change, if not
// nil, changes how it is started.
func start(t *testing.T, path string, change func(*exec.Cmd), arguments ...string) *program {
	t.Helper()
	p := &program{T: t, name: strings.Join(append([]string{path[strings.LastIndexByte(path, '/')+1:]}, arguments[:min(1, len(arguments))]...), " "), ended: make(chan struct{})}
	p.command = exec.Command(path, arguments...)
	p.command.Stdout, p.command.Stderr, p.command.SysProcAttr = &p.out, &p.err, attributes()
	// Settings of whoever runs the tests must not reach the processes.
	p.command.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "STILLHERE_") })
	if change != nil {
		change(p.command)
	}
	stdin, err := p.command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.command.Wait() // how it ended is in its state
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() && !p.forgotten {
			t.Logf("%s said last:\n%s", p.name, tail(p.err.String(), 4000))
		}
	})
	return p
}

func tail(text string, most int) string {
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}

// signal sends a signal to the process, this one and no other.
func (p *program) signal(s syscall.Signal) {
	p.Helper()
	if err := p.command.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.Errorf("sending %s to %s: %v", s, p.name, err)
	}
}

// kill ends the process as kill -9 does and waits until it is gone.
func (p *program) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// wait waits until the process has ended and returns its exit code.
func (p *program) wait(limit time.Duration) int {
	p.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		p.Fatalf("%s has not ended after %s; it said last:\n%s", p.name, limit, tail(p.err.String(), 2000))
	}
	return p.command.ProcessState.ExitCode()
}

// running tells whether the process has not ended.
func (p *program) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// pollEvery is how often a test looks whether what it waits for has come.
const pollEvery = 5 * time.Millisecond

// within waits until holds is true, and tells whether it did before the limit.
func within(limit time.Duration, holds func() bool) bool {
	deadline := time.Now().Add(limit)
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			return false
		}
		<-ticker.C
	}
	return true
}

// until is within that must hold.
func until(t *testing.T, what string, limit time.Duration, holds func() bool) {
	t.Helper()
	if !within(limit, holds) {
		t.Fatalf("after %s still not: %s", limit, what)
	}
}

// freePort is a port of the loopback on which nobody listens. It lies below those
// that the system gives to outgoing connections, and no two calls get the same.
func freePort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 15000+(int64(os.Getpid())*97+nextPort.Add(1))%15000)
		if portIsFree(address) {
			return address
		}
	}
	t.Fatal("there is no free port")
	return ""
}

var nextPort atomic.Int64

func portIsFree(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	l.Close()
	return true
}
