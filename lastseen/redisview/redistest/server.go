// Package redistest gives tests Redis servers: miniredis, and a real one where
// it is installed or STILLHERE_TEST_REDIS names one.
package redistest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Server is a Redis for one test.
type Server struct {
	Addr string
	// Prefix keeps the keys of a test on a shared server apart.
	Prefix string
	// Real tells it from miniredis.
	Real bool
}

// Each runs a test on every kind of server there is.
func Each(t *testing.T, test func(t *testing.T, server Server)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, Mini(t))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, Real(t))
	})
}

// Mini starts a miniredis.
func Mini(tb testing.TB) Server {
	tb.Helper()
	return Server{Addr: miniredis.RunT(tb).Addr()}
}

// Real takes the server of STILLHERE_TEST_REDIS (redis://host:port) or starts one; it
// skips the test when there is none.
func Real(tb testing.TB) Server {
	tb.Helper()
	if given := os.Getenv("STILLHERE_TEST_REDIS"); given != "" {
		return Server{Addr: strings.TrimPrefix(given, "redis://"), Prefix: fmt.Sprintf("test:%s:%d:", tb.Name(), time.Now().UnixNano()), Real: true}
	}
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		tb.Skip("no Redis here: install redis-server or set STILLHERE_TEST_REDIS=redis://host:port")
	}
	const attempts = 5 // the free port may be taken before the server has it
	for range attempts {
		if addr := start(tb, binary); addr != "" {
			return Server{Addr: addr, Real: true}
		}
	}
	tb.Fatal("redis-server does not start")
	return Server{}
}

// start returns the address of a server, or "" when it did not come up.
func start(tb testing.TB, binary string) string {
	tb.Helper()
	free, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	addr := free.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	if err := free.Close(); err != nil {
		tb.Fatal(err)
	}
	command := exec.CommandContext(context.Background(), binary, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", tb.TempDir())
	output, err := command.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := command.Start(); err != nil {
		tb.Fatal(err)
	}
	stop := func() {
		_ = command.Process.Kill()
		_ = command.Wait() // its exit status tells of the kill
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			tb.Cleanup(stop)
			return addr
		}
	}
	stop()
	return ""
}

// Flush empties the server, as a restart without data does.
func (s Server) Flush(ctx context.Context) error { return s.Do(ctx, "FLUSHALL") }

// Do sends one command, its words separated by spaces, and wants any answer but
// an error.
func (s Server) Do(ctx context.Context, command string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	words := strings.Fields(command)
	request := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		request += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := conn.Write([]byte(request)); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if strings.HasPrefix(answer, "-") {
		return fmt.Errorf("%s: %s", command, strings.TrimSpace(answer))
	}
	return nil
}
