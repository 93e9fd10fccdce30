//go:build unix

package process_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// servers are real servers of the test's own, which it may kill, freeze and
// restart: deploy/local/up in a directory of its own.
type servers struct {
	*testing.T
	dir string
	env map[string]string // what up has printed
}

// startServers runs deploy/local/up with these options. It skips where real
// servers are not wanted.
func startServers(t *testing.T, options ...string) *servers {
	t.Helper()
	return startServersIn(t, filepath.Join(t.TempDir(), "servers"), options...)
}

func startServersIn(t *testing.T, dir string, options ...string) *servers {
	t.Helper()
	needKafka(t)
	s := &servers{T: t, dir: dir, env: map[string]string{}}
	t.Cleanup(func() {
		if t.Failed() {
			for _, name := range []string{"kafka-1", "kafka-2", "kafka-3"} {
				if said, err := os.ReadFile(filepath.Join(s.dir, name, "log")); err == nil {
					t.Logf("%s said last:\n%s", name, tail(string(said), 3000))
				}
			}
		}
		s.local("down", "--wipe")
	})
	for _, line := range strings.Split(s.local("up", options...), "\n") {
		if name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "="); ok {
			s.env[name] = strings.Trim(value, "'")
		}
	}
	return s
}

// needKafka skips the test where no Apache Kafka is named.
func needKafka(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real servers, which -short is to avoid")
	}
	if os.Getenv("STILLHERE_TEST_KAFKA") == "" {
		t.Skip("STILLHERE_TEST_KAFKA names no server (host:port, see deploy/local/up), so nothing is tried on Apache Kafka")
	}
}

// needLong skips what takes minutes.
func needLong(t *testing.T) {
	t.Helper()
	if os.Getenv("STILLHERE_LONG") == "" {
		t.Skip("takes minutes; STILLHERE_LONG=1 runs it")
	}
}

// local runs one of the scripts of deploy/local and returns what it printed.
func (s *servers) local(script string, arguments ...string) string {
	s.Helper()
	command := exec.Command(filepath.Join("..", "..", "deploy", "local", script), append(arguments, "--data", s.dir)...)
	var faults strings.Builder
	command.Stderr = &faults
	out, err := command.Output()
	if err != nil {
		s.Fatalf("%s %v: %v\n%s", script, arguments, err, &faults)
	}
	return string(out)
}

// do does something to one server; see deploy/local/server --help.
func (s *servers) do(name, action string) {
	s.Helper()
	s.local("server", name, action)
}

func (s *servers) brokers() []string { return strings.Split(s.env["STILLHERE_KAFKA_BROKERS"], ",") }
