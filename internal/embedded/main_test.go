package embedded

import (
	"context"
	"net"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	// What the resolver makes for itself at its first question must not belong to the
	// bubble of one test: the next one (-count 2) could not use it.
	_, _ = net.DefaultResolver.LookupHost(context.Background(), "localhost") // the answer does not matter
	os.Exit(m.Run())
}
