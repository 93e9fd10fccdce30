package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	// refresh is the time between two readings, resized that between two looks at the terminal's size.
	refresh = time.Second
	resized = 200 * time.Millisecond
)

// Control sequences (ECMA-48, and xterm's alternate screen).
const (
	enter = "\x1b[?1049h\x1b[?25l" // the alternate screen, without a cursor
	leave = "\x1b[?25h\x1b[?1049l"
	rest  = "\x1b[K" // erases the rest of the line
)

// ErrNoTerminal says that a screen needs a terminal.
var ErrNoTerminal = errors.New("top needs a terminal as its standard output")

// Top shows the overview on a terminal until the user quits or ctx ends. The terminal is afterwards as it
// was. tty must be open for reading and writing; Top closes it.
func Top(ctx context.Context, from Source, tty *os.File) (err error) {
	var before *term.State
	raw := func(fd int) (err error) { before, err = term.MakeRaw(fd); return err }
	if control(tty, raw) != nil {
		return errors.Join(ErrNoTerminal, tty.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	keys, read := make(chan string), make(chan reading)
	if tty.SetReadDeadline(time.Time{}) == nil {
		running.Go(func() { listen(ctx, tty, keys) })
	} else {
		go listen(ctx, tty, keys) // this system cannot end it before the next key
	}
	running.Go(func() { from.poll(ctx, read) })
	defer func() {
		cancel()
		_, left := io.WriteString(tty, leave)
		restore := func(fd int) error { return term.Restore(fd, before) }
		err = errors.Join(err, left, control(tty, restore), tty.Close())
		running.Wait()
	}()
	if _, err := io.WriteString(tty, enter); err != nil {
		return err
	}
	v := View{URL: from.URL}
	ticker := time.NewTicker(resized)
	defer ticker.Stop()
	drawn := ""
	for {
		v.Now = time.Now()
		if drawn, err = v.draw(tty, drawn); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case key := <-keys:
			if v.Press(key) {
				return nil
			}
		case r := <-read:
			if v.Err = r.err; r.err == nil {
				v.Overview, v.Since = r.overview, time.Now()
			}
		}
	}
}

// reading is the result of one attempt.
type reading struct {
	overview *Overview
	err      error
}

// poll reads each second.
func (s Source) poll(ctx context.Context, to chan<- reading) {
	ticker := time.NewTicker(refresh)
	defer ticker.Stop()
	for {
		o, err := s.Read(ctx)
		select {
		case <-ctx.Done():
			return
		case to <- reading{o, err}:
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// listen reads keys until the terminal is closed or ctx has ended. What comes at once is one key: keys of
// several bytes do.
func listen(ctx context.Context, tty io.Reader, keys chan<- string) {
	buffer := make([]byte, 64)
	for {
		n, err := tty.Read(buffer)
		if n > 0 {
			select {
			case <-ctx.Done():
				return
			case keys <- string(buffer[:n]):
			}
		}
		if err != nil {
			return
		}
	}
}

// draw writes the screen unless it looks as it did, and returns what it looks like.
func (v *View) draw(tty *os.File, drawn string) (string, error) {
	var width, height int
	size := func(fd int) (err error) { width, height, err = term.GetSize(fd); return err }
	if err := control(tty, size); err != nil {
		return "", fmt.Errorf("asking for the size of the terminal: %w", err)
	}
	var b strings.Builder
	for i, line := range v.Screen(width, height) {
		fmt.Fprintf(&b, "\x1b[%d;1H%s%s", i+1, line, rest)
	}
	now := b.String()
	if now == drawn {
		return drawn, nil
	}
	_, err := io.WriteString(tty, now)
	return now, err
}

// control calls do with the descriptor of a file. File.Fd would make closing it wait for a key.
func control(tty *os.File, do func(fd int) error) error {
	raw, err := tty.SyscallConn()
	if err != nil {
		return err
	}
	var done error
	err = raw.Control(func(fd uintptr) { done = do(int(fd)) })
	return errors.Join(err, done)
}
