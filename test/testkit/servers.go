//go:build unix

package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/source"
)

// Servers are real servers of the test's own, which it may kill, freeze and
// restart: deploy/local/up in a directory of its own.
type Servers struct {
	*testing.T
	dir string
	Env map[string]string // what up has printed
}

// StartServers runs deploy/local/up with these options. It skips where real
// servers are not wanted.
func StartServers(t *testing.T, options ...string) *Servers {
	t.Helper()
	return StartServersIn(t, filepath.Join(t.TempDir(), "servers"), options...)
}

func StartServersIn(t *testing.T, dir string, options ...string) *Servers {
	t.Helper()
	NeedKafka(t)
	s := &Servers{T: t, dir: dir, Env: map[string]string{}}
	t.Cleanup(func() {
		if t.Failed() {
			for _, name := range []string{"kafka-1", "kafka-2", "kafka-3"} {
				if said, err := os.ReadFile(filepath.Join(s.dir, name, "log")); err == nil {
					t.Logf("%s said last:\n%s", name, Tail(string(said), 3000))
				}
			}
		}
		s.Local("down", "--wipe")
	})
	for _, line := range strings.Split(s.Local("up", options...), "\n") {
		if name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "="); ok {
			s.Env[name] = strings.Trim(value, "'")
		}
	}
	return s
}

// NeedKafka skips the test where no Apache Kafka is named.
func NeedKafka(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real servers, which -short is to avoid")
	}
	if os.Getenv("STILLHERE_TEST_KAFKA") == "" {
		t.Skip("STILLHERE_TEST_KAFKA names no server (host:port, see deploy/local/up), so nothing is tried on Apache Kafka")
	}
}

// NeedLong skips what takes minutes.
func NeedLong(t *testing.T) {
	t.Helper()
	if os.Getenv("STILLHERE_LONG") == "" {
		t.Skip("takes minutes; STILLHERE_LONG=1 runs it")
	}
}

// Local runs one of the scripts of deploy/local and returns what it printed.
func (s *Servers) Local(script string, arguments ...string) string {
	s.Helper()
	command := exec.Command(filepath.Join(source.Root(), "deploy", "local", script), append(arguments, "--data", s.dir)...)
	var faults strings.Builder
	command.Stderr = &faults
	out, err := command.Output()
	if err != nil {
		s.Fatalf("%s %v: %v\n%s", script, arguments, err, &faults)
	}
	return string(out)
}

// Do does something to one server; see deploy/local/server --help.
func (s *Servers) Do(name, action string) {
	s.Helper()
	s.Local("server", name, action)
}

func (s *Servers) Brokers() []string { return strings.Split(s.Env["STILLHERE_KAFKA_BROKERS"], ",") }
