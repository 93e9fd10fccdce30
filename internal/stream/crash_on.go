//go:build crashpoints

package stream

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// crash is where the process is to die.
type crash struct {
	point string
	left  atomic.Int64 // times to come there
}

// crashAt is what STILLHERE_CRASH says, "point:n": the process kills itself, as
// with kill -9, when it comes to the point for the n-th time.
var crashAt = parseCrash(os.Getenv("STILLHERE_CRASH"))

func parseCrash(text string) *crash {
	point, n, _ := strings.Cut(text, ":")
	c := &crash{point: point}
	left, err := strconv.ParseInt(n, 10, 64)
	if point != "" && err != nil {
		panic("STILLHERE_CRASH: must be point:n, is " + text)
	}
	c.left.Store(left)
	return c
}

// crashPoint kills the process if this is where it is to die.
func crashPoint(name string) {
	if name != crashAt.point || crashAt.left.Add(-1) != 0 {
		return
	}
	fmt.Fprintln(os.Stderr, "crash point", name)
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {}
}
