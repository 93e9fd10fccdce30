// Package redistest starts Redis for tests: miniredis, redis-server with TLS and passwords, a
// cluster, a replica behind Sentinels. All servers are private processes of the test, on loopback,
// in a temporary directory. Server.Dial makes connections that a test can cut.
package redistest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/proto"

	"github.com/stillhere/stillhere/internal/testkit/freeport"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

// Server is one Redis.
type Server struct {
	Addr string
	// Prefix separates the keys of a test on a shared server from others; empty on its own server.
	Prefix string
	Mini   *miniredis.Miniredis // nil for a real server

	tb     testing.TB
	cmd    *exec.Cmd
	end    sync.Once
	exited chan struct{}

	connections
}

// Each runs test with miniredis and with a real server, in parallel.
func Each(t *testing.T, test func(t *testing.T, server *Server)) { t.Helper(); each(t, test, Real) }

// EachOwn is Each with a real server that no other test uses.
func EachOwn(t *testing.T, test func(t *testing.T, server *Server)) { t.Helper(); each(t, test, Own) }

func each(t *testing.T, test func(*testing.T, *Server), start func(testing.TB) *Server) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) { t.Parallel(); test(t, Mini(t)) })
	t.Run("redis", func(t *testing.T) { t.Parallel(); test(t, start(t)) })
}

// Mini starts miniredis.
func Mini(tb testing.TB) *Server {
	tb.Helper()
	m := miniredis.RunT(tb)
	return &Server{Addr: m.Addr(), Mini: m, tb: tb}
}

// Real returns the server of STILLHERE_TEST_REDIS (redis://host:port) or starts one. It skips the
// test when there is neither.
func Real(tb testing.TB) *Server {
	tb.Helper()
	if given := os.Getenv("STILLHERE_TEST_REDIS"); given != "" {
		return &Server{Addr: strings.TrimPrefix(given, "redis://"), Prefix: fmt.Sprintf("test:%s:%d:", tb.Name(), time.Now().UnixNano()), tb: tb}
	}
	return Own(tb)
}

// Own starts redis-server without persistence.
func Own(tb testing.TB) *Server { tb.Helper(); return Start(tb, "--appendonly", "no") }

// timeout bounds each wait for the servers.
const timeout = 30 * time.Second

// Start starts redis-server with more settings, such as "--requirepass", "x"; it
// skips the test where there is no redis-server.
func Start(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	return start(tb, freePort(tb), nil, settings)
}

// StartTLS starts a server that speaks only TLS, with certificates in files.
func StartTLS(tb testing.TB, ca, cert, key string, settings ...string) *Server {
	tb.Helper()
	port := freePort(tb)
	return start(tb, port, nil, append([]string{"--tls-port", strconv.Itoa(port), "--port", "0",
		"--tls-ca-cert-file", ca, "--tls-cert-file", cert, "--tls-key-file", key}, settings...))
}

func start(tb testing.TB, port int, config []string, settings []string) *Server {
	tb.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		tb.Skip("redis-server is not installed; install it or set STILLHERE_TEST_REDIS=redis://host:port")
	}
	dir := tb.TempDir()
	args := []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--daemonize", "no", "--save", ""}
	if config != nil { // a Sentinel rewrites its file and takes no other settings
		file := dir + "/redis.conf"
		must.Do(tb, os.WriteFile(file, []byte(strings.Join(config, "\n")), 0o600))
		args = []string{file, "--sentinel"}
	}
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), tb: tb, exited: make(chan struct{})}
	s.cmd = exec.CommandContext(context.Background(), path, append(args, settings...)...)
	out := must.Get(s.cmd.StdoutPipe())(tb)
	must.Do(tb, s.cmd.Start())
	lines, ready := bufio.NewScanner(out), false
	var output []string
	for !ready && lines.Scan() {
		output = append(output, lines.Text())
		ready = strings.Contains(lines.Text(), "Ready to accept connections") || strings.Contains(lines.Text(), "Sentinel ID is")
	}
	go func() {
		defer close(s.exited)
		_, _ = io.Copy(io.Discard, out)
		_ = s.cmd.Wait() // its exit status reports the kill
	}()
	tb.Cleanup(s.Kill)
	if !ready {
		tb.Fatalf("redis-server does not start: %s", strings.Join(output, "\n"))
	}
	return s
}

// Kill ends the server at once.
func (s *Server) Kill() {
	s.end.Do(func() { _ = s.cmd.Process.Kill() })
	<-s.exited
}

// Do sends one command to a server without TLS and returns the answer as text; the answers of an array
// stand on lines of their own.
func (s *Server) Do(format string, args ...any) (string, error) {
	conn, err := (&net.Dialer{Timeout: timeout}).DialContext(context.Background(), "tcp", s.Addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return "", err
	}
	reply, err := proto.NewClient(conn).Do(strings.Fields(fmt.Sprintf(format, args...))...)
	if err != nil || reply == "$-1\r\n" { // nil
		return "", err
	}
	answer, err := proto.Parse(reply)
	switch answer := answer.(type) {
	case error:
		return "", answer
	case []any:
		lines := make([]string, len(answer))
		for i := range answer {
			lines[i] = fmt.Sprint(answer[i])
		}
		return strings.Join(lines, "\n"), err
	}
	return fmt.Sprint(answer), err
}

// Flush empties the server, as a restart without data does.
func (s *Server) Flush() error {
	_, err := s.Do("FLUSHALL")
	return err
}

func (s *Server) must(format string, args ...any) string {
	s.tb.Helper()
	text, err := s.Do(format, args...)
	if err != nil {
		s.tb.Fatalf(format+": %v", append(args, err)...)
	}
	return text
}

// until waits until holds.
func until(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(timeout)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			tb.Fatalf("waited %s in vain: %s", timeout, what)
		}
	}
}

func freePort(tb testing.TB) int {
	tb.Helper()
	return must.Get(freeport.Find())(tb)
}
