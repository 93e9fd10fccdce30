//go:build linux && !386 && !s390x && !race

package socket

import (
	"syscall"
	"unsafe"
)

// send writes to a socket as far as there is room. It never waits, so the scheduler is
// not told of the call: told, it takes the processor from a thread that the kernel
// lets wait in the middle, and gives it to another, which does the kernel no good.
// Sendto spares what write does for files. See fanout/DESIGN.md for the figures.
func send(fd uintptr, b []byte) (n int, err error) {
	r, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(r), nil
}
