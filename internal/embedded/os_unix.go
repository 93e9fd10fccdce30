//go:build unix

package embedded

import (
	"os"
	"syscall"
)

func flock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// inodeOf is the inode of a file; 0 if it is unknown.
func inodeOf(file *os.File) uint64 {
	info, err := file.Stat()
	if err != nil {
		return 0
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}
