//go:build unix

package testkit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/freeport"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

// Program is a process that a test has started. One goroutine at a time may use
// it.
type Program struct {
	*testing.T
	name     string
	Command  *exec.Cmd
	Stdin    io.WriteCloser
	Out, Err Transcript
	Ended    chan struct{} // closed when it has ended

	forgotten bool // what it said is of no interest any more
}

// Forget gives back the memory of a process that has ended.
func (p *Program) Forget() {
	p.forgotten = true
	p.Out.drop()
	p.Err.drop()
}

// Transcript is what a process has written so far.
type Transcript struct {
	mu   sync.Mutex
	text []byte
}

func (w *Transcript) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, b...)
	return len(b), nil
}

func (w *Transcript) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = nil
}

func (w *Transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text)
}

// Lines are those that are complete.
func (w *Transcript) Lines() []string {
	text := w.String()
	return strings.Split(text, "\n")[:strings.Count(text, "\n")]
}

// Start starts a process, which ends with the test at the latest. change, if not
// nil, changes how it is started.
func Start(t *testing.T, path string, change func(*exec.Cmd), arguments ...string) *Program {
	t.Helper()
	p := &Program{T: t, name: strings.Join(append([]string{path[strings.LastIndexByte(path, '/')+1:]}, arguments[:min(1, len(arguments))]...), " "), Ended: make(chan struct{})}
	p.Command = exec.Command(path, arguments...)
	p.Command.Stdout, p.Command.Stderr, p.Command.SysProcAttr = &p.Out, &p.Err, attributes()
	// Settings of the shell that runs the tests must not reach the processes.
	p.Command.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "STILLHERE_") })
	if change != nil {
		change(p.Command)
	}
	stdin := must.Get(p.Command.StdinPipe())(t)
	p.Stdin = stdin
	must.Do(t, p.Command.Start())
	go func() {
		_ = p.Command.Wait() // how it ended is in its state
		close(p.Ended)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() && !p.forgotten {
			t.Logf("%s said last:\n%s", p.name, Tail(p.Err.String(), 4000))
		}
	})
	return p
}

func Tail(text string, most int) string {
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}

// Signal sends a signal to the process, this one and no other.
func (p *Program) Signal(s syscall.Signal) {
	p.Helper()
	if err := p.Command.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.Errorf("sending %s to %s: %v", s, p.name, err)
	}
}

// Kill ends the process as kill -9 does and waits until it is gone.
func (p *Program) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.Ended
}

// Wait waits until the process has ended and returns its exit code.
func (p *Program) Wait(limit time.Duration) int {
	p.Helper()
	select {
	case <-p.Ended:
	case <-time.After(limit):
		p.Fatalf("%s has not ended after %s; it said last:\n%s", p.name, limit, Tail(p.Err.String(), 2000))
	}
	return p.Command.ProcessState.ExitCode()
}

// Running reports whether the process has not ended.
func (p *Program) Running() bool {
	select {
	case <-p.Ended:
		return false
	default:
		return true
	}
}

// pollEvery is how often a test looks whether what it waits for has come.
const pollEvery = 5 * time.Millisecond

// Within waits until holds is true, and reports whether it did before the limit.
func Within(limit time.Duration, holds func() bool) bool {
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

// Until is within that must hold.
func Until(t *testing.T, what string, limit time.Duration, holds func() bool) {
	t.Helper()
	if !Within(limit, holds) {
		t.Fatalf("after %s still not: %s", limit, what)
	}
}

// FreePort is an address of the loopback on which nobody listens.
func FreePort(t *testing.T) string {
	t.Helper()
	port := must.Get(freeport.Find())(t)
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// Stop asks the process to stop, as a deployment does, and wants it to end well.
func (p *Program) Stop() {
	p.Helper()
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(40 * time.Second); code != 0 {
		p.Errorf("%s stopped with exit code %d:\n%s", p.name, code, Tail(p.Err.String(), 2000))
	}
}

// Memory is a field of the process's memory in MiB, such as VmRSS; 0 where the system does not report it.
func (p *Program) Memory(field string) (size float64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Command.Process.Pid))
	if _, rest, found := strings.Cut(string(text), field+":"); found {
		_, _ = fmt.Sscan(rest, &size) // kB
	}
	return size / 1024
}

// Fill takes all space of the disk of dir until the returned function gives it back.
func Fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	file, err := os.CreateTemp(dir, "filler")
	must.Do(t, err)
	for block := make([]byte, 64<<10); err == nil; {
		_, err = file.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	must.Do(t, file.Close())
	return func() { must.Do(t, os.Remove(file.Name())) }
}
