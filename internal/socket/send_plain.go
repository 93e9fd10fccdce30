//go:build unix && (!linux || 386 || s390x)

package socket

import "syscall"

// send writes to a socket, which does not block, as far as there is room.
func send(fd uintptr, b []byte) (n int, err error) { return syscall.Write(int(fd), b) }
