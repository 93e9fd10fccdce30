//go:build crashpoints

package crashpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// crash is where the process is to die, or to freeze.
type crash struct {
	point  string
	left   atomic.Int64 // times to come there
	signal syscall.Signal
}

// crashAt is what STILLHERE_CRASH says, "point:n": the process kills itself, as
// with kill -9, when it comes to the point for the n-th time. "point:n:stop"
// freezes it there instead, until somebody sends SIGCONT.
var crashAt = parseCrash(os.Getenv("STILLHERE_CRASH"))

func parseCrash(text string) *crash {
	parts := strings.Split(text, ":")
	c := &crash{point: parts[0], signal: syscall.SIGKILL}
	if c.point == "" {
		return c
	}
	if len(parts) == 3 && parts[2] == "stop" {
		c.signal = syscall.SIGSTOP
	}
	left, err := strconv.ParseInt(parts[min(1, len(parts)-1)], 10, 64)
	if err != nil || len(parts) > 3 {
		panic("STILLHERE_CRASH: must be point:n or point:n:stop, is " + text)
	}
	c.left.Store(left)
	return c
}

// Bound is the number that an environment variable of this name holds; 0 if there is none.
func Bound(name string) int {
	text := os.Getenv(name)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		panic(name + ": must be a whole number above 0, is " + text)
	}
	return n
}

// At sends the process its signal if this is the place.
func At(name string) {
	if name != crashAt.point || crashAt.left.Add(-1) != 0 {
		return
	}
	fmt.Fprintln(os.Stderr, "crash point", name)
	if err := syscall.Kill(os.Getpid(), crashAt.signal); err != nil {
		panic(err)
	}
	if crashAt.signal == syscall.SIGKILL {
		select {}
	}
}
