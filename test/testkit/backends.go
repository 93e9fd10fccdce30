package testkit

import (
	"errors"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/pgtest"
)

// Postgres is a server of the test's own, with a database. It skips the test where none is installed.
func Postgres(t *testing.T) (server *pgtest.Cluster, url string) {
	t.Helper()
	server, err := pgtest.Open(t.Context(), "")
	if errors.Is(err, pgtest.ErrMissing) {
		t.Skip(err)
	}
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, server.Stop()) })
	url, err = server.URL(t.Context())
	must.Do(t, err)
	return server, url
}

// NewRole prepares a role as a process of its own and does not start it.
func NewRole(t *testing.T) *Dev {
	t.Helper()
	h := &Dev{T: t, Listen: FreePort(t), Admin: FreePort(t), Client: &http.Client{Timeout: 20 * time.Second}}
	t.Cleanup(h.Client.CloseIdleConnections)
	return h
}

// Run starts a role, under a name, of the program at path.
func (h *Dev) Run(path, role, name string, change func(*exec.Cmd), flags ...string) {
	h.Helper()
	h.Program = Start(h.T, path, change, append([]string{role, "--instance", name, "--listen", h.Listen, "--admin", h.Admin}, flags...)...)
}

// Broker is the stand-in of Kafka in a process of its own, with a directory of data, and its address.
func Broker(t *testing.T, flags ...string) (p *Program, address string) {
	t.Helper()
	p = Start(t, Binary(t, "broker"), nil, append(flags, "-data-dir", filepath.Join(t.TempDir(), "kafka"))...)
	Until(t, "the broker is ready", 20*time.Second, func() bool { return len(p.Out.Lines()) > 0 })
	return p, strings.TrimPrefix(p.Out.Lines()[0], "ready ")
}
