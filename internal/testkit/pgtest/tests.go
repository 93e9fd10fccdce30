package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// startLimit bounds how long a cluster may take to start.
const startLimit = time.Minute

// Around runs the tests of a package with a cluster, which it starts before and stops
// after them, and returns the exit code. use is given the cluster, or nil and why
// there is none: tests that need it skip with that.
func Around(tests func() int, use func(*Cluster, error)) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	cluster, err := Start(ctx)
	cancel()
	if err != nil && !errors.Is(err, ErrMissing) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	use(cluster, err)
	code = tests()
	if cluster != nil {
		if err := cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}
