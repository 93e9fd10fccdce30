//go:build !unix

package contexts

import "os"

// tryLock does nothing here: of two commands that change contexts at once, one may lose its change.
func tryLock(*os.File) (bool, error) { return true, nil }
