// Package progress shows a person at a terminal how far a command is.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
)

// Line is a line on a terminal that is written again and again. One goroutine
// may use it.
type Line struct {
	out     io.Writer
	live    bool // out is a terminal
	written time.Time
	width   int
}

// Stderr is a line on standard error. Where that is no terminal, Say does nothing.
func Stderr() *Line {
	return &Line{out: os.Stderr, live: isatty.IsTerminal(os.Stderr.Fd())}
}

// None shows nothing.
func None() *Line { return &Line{out: io.Discard} }

// every is how often the line is written at most.
const every = 100 * time.Millisecond

// Say replaces the text of the line, at most ten times a second.
func (l *Line) Say(format string, args ...any) {
	if !l.live || time.Since(l.written) < every {
		return
	}
	l.written = time.Now()
	l.put(fmt.Sprintf(format, args...))
}

// Note writes a line that stays, on a terminal or not.
func (l *Line) Note(format string, args ...any) {
	l.Clear()
	fmt.Fprintf(l.out, format+"\n", args...)
}

// Clear removes the text of Say.
func (l *Line) Clear() {
	if l.width > 0 {
		l.put("")
		fmt.Fprint(l.out, "\r")
	}
}

func (l *Line) put(text string) {
	fmt.Fprint(l.out, "\r", text, strings.Repeat(" ", max(0, l.width-len(text))))
	l.width = len(text)
}
