//go:build unix

package bench

import (
	"fmt"
	"syscall"
)

// spare is how many files of a process are not sockets.
const spare = 1_000

// filesPerProcess is how many sockets a process may hold here.
func filesPerProcess() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("looking for the limit on open files: %w", err)
	}
	if limit.Cur < 2*spare {
		return 0, fmt.Errorf("a process may open only %d files here, and each socket is one: raise it (ulimit -n)", limit.Cur)
	}
	return int(min(limit.Cur-spare, 1_000_000)), nil
}
