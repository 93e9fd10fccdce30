// Package redisfleet starts Redis as people run it, for tests: with TLS and
// passwords, as a cluster, behind Sentinels. All servers are private processes of
// the test, on the loopback, in a temporary directory.
package redisfleet

import (
	"bufio"
	"context"
	"errors"
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
)

// Server is one process.
type Server struct {
	Addr string
	tb   testing.TB
	cmd  *exec.Cmd
	end  sync.Once
	gone chan struct{}
}

// patience bounds each wait for the servers.
const patience = 30 * time.Second

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
		tb.Skip("no redis-server here: install Redis")
	}
	dir := tb.TempDir()
	args := []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--daemonize", "no", "--save", ""}
	if config != nil { // a Sentinel rewrites its file and takes no other settings
		file := dir + "/redis.conf"
		if err := os.WriteFile(file, []byte(strings.Join(config, "\n")), 0o600); err != nil {
			tb.Fatal(err)
		}
		args = []string{file, "--sentinel"}
	}
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), tb: tb, gone: make(chan struct{})}
	s.cmd = exec.CommandContext(context.Background(), path, append(args, settings...)...)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	lines, ready := bufio.NewScanner(out), false
	var said []string
	for !ready && lines.Scan() {
		said = append(said, lines.Text())
		ready = strings.Contains(lines.Text(), "Ready to accept connections") || strings.Contains(lines.Text(), "Sentinel ID is")
	}
	go func() {
		defer close(s.gone)
		_, _ = io.Copy(io.Discard, out)
		_ = s.cmd.Wait() // its exit status tells of the kill
	}()
	tb.Cleanup(s.Kill)
	if !ready {
		tb.Fatalf("redis-server does not start: %s", strings.Join(said, "\n"))
	}
	return s
}

// Kill ends the server at once.
func (s *Server) Kill() {
	s.end.Do(func() { _ = s.cmd.Process.Kill() })
	<-s.gone
}

// Do sends one command to a server without TLS and returns the first line of the
// answer, or all of a text.
func (s *Server) Do(format string, args ...any) (string, error) {
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", s.Addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(conn, format+"\r\n", args...); err != nil {
		return "", err
	}
	return readAnswer(bufio.NewReader(conn))
}

// readAnswer reads one answer; those of an array stand on lines of their own.
func readAnswer(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSpace(line)
	switch line[0] {
	case '-':
		return "", errors.New(line[1:])
	case '$':
		length, err := strconv.Atoi(line[1:])
		if err != nil || length < 0 {
			return "", err
		}
		text := make([]byte, length+2) // with the end of the line
		_, err = io.ReadFull(r, text)
		return string(text[:length]), err
	case '*':
		length, err := strconv.Atoi(line[1:])
		if err != nil {
			return "", err
		}
		all := make([]string, max(length, 0))
		for i := range all {
			if all[i], err = readAnswer(r); err != nil {
				return "", err
			}
		}
		return strings.Join(all, "\n"), nil
	}
	return line[1:], nil
}

func (s *Server) must(format string, args ...any) string {
	s.tb.Helper()
	text, err := s.Do(format, args...)
	if err != nil {
		s.tb.Fatalf(format+": %v", append(args, err)...)
	}
	return text
}

// until asks again and again, a moment apart.
func until(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			tb.Fatalf("waited %s in vain: %s", patience, what)
		}
	}
}

// given are the ports that this process has named: until a server has taken one, the
// system may name it again to the next test.
var given sync.Map

func freePort(tb testing.TB) int {
	tb.Helper()
	for {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		_ = l.Close() // nobody has connected
		if _, before := given.LoadOrStore(port, true); !before {
			return port
		}
	}
}
