package kafka_test

import (
	"fmt"
	"syscall"
)

// mountTmpfs mounts a file system in memory of so many bytes.
func mountTmpfs(dir string, size int) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size))
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
