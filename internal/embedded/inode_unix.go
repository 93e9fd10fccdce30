//go:build unix

package embedded

import (
	"os"
	"syscall"
)

// inodeOf is the number of a file on its file system; 0 when it is not known.
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
