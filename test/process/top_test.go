//go:build unix

package process_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/stillhere/stillhere/test/testkit"
)

func TestTopNeedsNoControllingTerminalAndNoStandardInput(t *testing.T) {
	t.Parallel()
	k := atKeyboard(t)
	master, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = master.Close() }()
	if err := pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), testkit.Binary(t, "stillhere"), "top")
	command.Env = append(os.Environ(), k.env...)
	command.Stdout, command.Stderr = terminal, terminal
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // /dev/tty is the terminal of a session
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	_ = terminal.Close()
	var seen bytes.Buffer
	buffer := make([]byte, 4096)
	for quit := false; ; {
		n, err := master.Read(buffer)
		seen.Write(buffer[:n])
		if !quit && strings.Contains(seen.String(), "PARTITION") {
			quit = true
			if _, err := io.WriteString(master, "q"); err != nil {
				t.Errorf("typing: %v", err)
			}
		}
		if err != nil { // the command has ended
			break
		}
	}
	if err := command.Wait(); err != nil || !strings.Contains(seen.String(), "PARTITION") {
		t.Errorf("%v:\n%q", err, testkit.Tail(seen.String(), 2000))
	}
	k.types(1, []string{"top needs a terminal as its standard output; without one: stillhere status --watch --context dev"}, "top", "--context", "dev")
	k.types(0, []string{`{"at":"`}, "status", "--output", "jsonl")
}
