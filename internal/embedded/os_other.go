//go:build !unix

package embedded

import "os"

// flock does nothing here: two processes may then open the same data directory.
func flock(*os.File) error { return nil }

func funlock(*os.File) error { return nil }
