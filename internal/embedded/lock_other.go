//go:build !unix

package embedded

import "os"

// flock does nothing where there is no such thing: two processes on one data
// directory are then not noticed.
func flock(*os.File) error { return nil }
