//go:build linux || darwin

package embedded

import (
	"math"
	"syscall"
)

// free is the space of the disk that is left for dir.
func free(dir string) uint64 {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return math.MaxUint64 // writing will tell
	}
	return s.Bavail * uint64(s.Bsize) //nolint:gosec // a block has a size
}
