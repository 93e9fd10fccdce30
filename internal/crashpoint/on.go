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

// crash is the point at which the process is killed or suspended.
type crash struct {
	point  string
	left   atomic.Int64 // how often to reach it
	signal syscall.Signal
}

// crashAt is read from STILLHERE_CRASH, "point:n": the process kills itself with SIGKILL when it
// reaches the point for the n-th time. "point:n:stop" suspends it instead, until SIGCONT.
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

// Bound is the number in the named environment variable; 0 if it is not set.
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

// At kills or suspends the process if name is the point.
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
