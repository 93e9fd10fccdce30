package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// startLimit bounds how long a cluster may take to start.
const startLimit = time.Minute

// shared is the cluster of the package under test; nil, and why, if there is none. Main sets both
// before the tests run.
var (
	shared  *Cluster
	missing error
)

// Main is the body of a TestMain. It runs the tests of a package with a cluster that Shared and URL
// give out, and fails if a goroutine is left.
func Main(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	shared, missing = Start(ctx)
	cancel()
	if missing != nil && !errors.Is(missing, ErrMissing) {
		fmt.Fprintln(os.Stderr, missing)
		return 1
	}
	code = m.Run()
	if shared != nil {
		if err := shared.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// Shared returns the cluster of Main. It skips the test where Postgres is not installed.
func Shared(tb testing.TB) *Cluster {
	tb.Helper()
	if missing != nil {
		tb.Skip(missing)
	}
	return shared
}

// URL returns the URL of an empty database in the cluster of Main, or skips the test as Shared does.
func URL(tb testing.TB) string {
	tb.Helper()
	return must.Get(Shared(tb).URL(tb.Context()))(tb)
}
