//go:build linux && !386 && !s390x && !race

package socket

import (
	"syscall"
	"unsafe"
)

// send writes as much to a socket as the kernel's buffer takes. It never blocks, so it does not
// announce the system call to the scheduler, which would hand the processor to another thread if
// the kernel preempts the call. sendto avoids the work that write does for files. See
// fanout/DESIGN.md for the figures.
func send(fd uintptr, b []byte) (n int, err error) {
	r, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)),
		syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(r), nil
}
