// Package progress shows a person at a terminal how far a command is.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
	"golang.org/x/term"
)

// Line is a line on a terminal that is written again and again. One goroutine
// may use it.
type Line struct {
	out     io.Writer
	live    bool       // out is a terminal
	columns func() int // of the terminal; 0: not known
	written time.Time
	width   int    // of the text that is there
	latest  func() // writes what Say came too early with; nil: nothing
}

// Stderr is a line on standard error. Where that is no terminal, Say does nothing.
func Stderr() *Line {
	columns := func() int {
		width, _, err := term.GetSize(int(os.Stderr.Fd()))
		if err != nil {
			return 0
		}
		return width
	}
	return &Line{out: os.Stderr, live: isatty.IsTerminal(os.Stderr.Fd()), columns: columns}
}

// None shows nothing.
func None() *Line { return &Line{out: io.Discard} }

// every is how often the line is written at most.
const every = 100 * time.Millisecond

// Say replaces the text of the line, at most ten times a second. The parts of the text have two blanks between them:
// the last ones are left out where the terminal is too narrow.
func (l *Line) Say(format string, args ...any) {
	if !l.live {
		return
	}
	write := func() { l.put(l.fit(fmt.Sprintf(format, args...))) }
	if time.Since(l.written) < every {
		l.latest = write
		return
	}
	l.written, l.latest = time.Now(), nil
	write()
}

// Note writes a line that stays, on a terminal or not.
func (l *Line) Note(format string, args ...any) {
	l.erase()
	fmt.Fprintf(l.out, format+"\n", args...)
}

// Clear ends what Say shows: it writes the newest text, if that came too early, and removes it.
func (l *Line) Clear() {
	if l.latest != nil {
		l.latest()
		l.latest = nil
	}
	l.erase()
}

// Writer writes to out, which may be the same terminal: it removes the line before.
func (l *Line) Writer(out io.Writer) io.Writer {
	if !l.live {
		return out
	}
	return cleared{l, out}
}

type cleared struct {
	line *Line
	out  io.Writer
}

// Write writes p.
func (c cleared) Write(p []byte) (int, error) {
	c.line.erase()
	return c.out.Write(p)
}

func (l *Line) erase() {
	if l.width > 0 {
		l.put("")
		fmt.Fprint(l.out, "\r")
	}
}

func (l *Line) put(text string) {
	width := utf8.RuneCountInString(text)
	fmt.Fprint(l.out, "\r", text, strings.Repeat(" ", max(0, l.width-width)))
	l.width = width
}

// fit leaves out what is too much for one line of the terminal. In the last column the cursor would go to the next one.
func (l *Line) fit(text string) string {
	most := l.columns() - 1
	for most > 0 && utf8.RuneCountInString(text) > most {
		i := strings.LastIndex(strings.TrimRight(text, " "), "  ")
		if i < 0 {
			return string([]rune(text)[:most])
		}
		text = strings.TrimRight(text[:i], " ")
	}
	return text
}
