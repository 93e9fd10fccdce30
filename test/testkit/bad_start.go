//go:build unix

package testkit

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// BadStart is a start that must be refused.
type BadStart struct {
	Arguments []string
	Change    func(*exec.Cmd)
	Code      int
	Lines     int      // on standard error
	Says      []string // what these lines name
}

// Refused checks that a start is refused as expected, soon, and without a word
// on standard output. It returns what was on standard error.
func Refused(t *testing.T, b BadStart) (said string) {
	t.Helper()
	p := Start(t, Binary(t, "stillhere"), b.Change, b.Arguments...)
	if code := p.Wait(40 * time.Second); code != b.Code {
		t.Errorf("the exit code is %d, must be %d", code, b.Code)
	}
	said = p.Err.String()
	if lines := p.Err.Lines(); len(lines) != b.Lines || strings.Count(said, "\n") != len(lines) || !strings.HasPrefix(said, "stillhere: ") {
		t.Errorf("standard error has %d lines, must have %d, and begin with stillhere:\n%s", len(lines), b.Lines, said)
	}
	for _, word := range b.Says {
		if !strings.Contains(said, word) {
			t.Errorf("standard error does not say %q:\n%s", word, said)
		}
	}
	if out := p.Out.String(); out != "" {
		t.Errorf("standard output is not empty: %s", out)
	}
	return said
}

// DevArguments start dev in dir on free ports.
func DevArguments(t *testing.T, dir string, more ...string) []string {
	return append([]string{"dev", "--data-dir", dir, "--listen", FreePort(t), "--kafka-listen", FreePort(t)}, more...)
}
