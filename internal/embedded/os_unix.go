//go:build unix

package embedded

import (
	"os"
	"syscall"
)

func flock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

func funlock(file *os.File) error { return syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }
