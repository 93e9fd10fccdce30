//go:build !unix

package bench

import (
	"errors"
	"io"
)

const bareHere = false

// Bare is not there.
func Bare(io.Writer, io.Reader) error { return errors.ErrUnsupported }
