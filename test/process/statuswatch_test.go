//go:build unix

package process_test

import (
	"bytes"
	"os/exec"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/test/testkit"
)

func TestAWatchedStatusReplacesTheLastOneOnATerminal(t *testing.T) {
	t.Parallel()
	h := testkit.NewDev(t)
	h.Up()
	command := exec.CommandContext(t.Context(), testkit.Binary(t, "stillhere"), "status", "--watch", "--url", "http://"+h.Listen)
	terminal, err := pty.Start(command)
	must.Do(t, err)
	defer func() { _ = terminal.Close() }()
	var seen bytes.Buffer
	buffer := make([]byte, 4096)
	for interrupted := false; ; {
		n, err := terminal.Read(buffer)
		seen.Write(buffer[:n])
		if screens := bytes.Split(seen.Bytes(), []byte("\x1b[H\x1b[2J")); !interrupted && len(screens) > 2 && bytes.Contains(screens[2], []byte("PARTITION")) {
			interrupted = true
			if err := command.Process.Signal(syscall.SIGINT); err != nil {
				t.Error(err)
			}
		}
		if err != nil { // the command has ended
			break
		}
	}
	if err := command.Wait(); err != nil || bytes.Count(seen.Bytes(), []byte("\x1b[2J")) < 2 {
		t.Errorf("%v:\n%q", err, testkit.Tail(seen.String(), 2000))
	}
}
