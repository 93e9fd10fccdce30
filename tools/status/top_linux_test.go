package status

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// screen is a pseudo-terminal, and what a person would see on it.
type screen struct {
	master  *os.File
	mu      sync.Mutex
	lines   map[int]string
	written bytes.Buffer
	changed chan struct{} // capacity 1
}

var drawnLine = regexp.MustCompile(`\x1b\[(\d+);1H([^\x1b]*)\x1b\[K`)

// openScreen opens a pseudo-terminal; tty is what a program gets.
func openScreen(t *testing.T, width, height int) (s *screen, tty *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	unlock := func(fd int) (err error) {
		number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	}
	if err := control(master, unlock); err != nil {
		t.Fatal(err)
	}
	s = &screen{master: master, lines: map[int]string{}, changed: make(chan struct{}, 1)}
	s.resize(t, width, height)
	if tty, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(s.read)
	t.Cleanup(func() { _ = master.Close(); reading.Wait() })
	return s, tty
}

func (s *screen) resize(t *testing.T, width, height int) {
	t.Helper()
	set := func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(width), Row: uint16(height)})
	}
	if err := control(s.master, set); err != nil {
		t.Fatal(err)
	}
}

// read does what a terminal does with what is written.
func (s *screen) read() {
	buffer := make([]byte, 1<<16)
	for {
		n, err := s.master.Read(buffer)
		if err != nil {
			return // the other side is closed
		}
		s.mu.Lock()
		s.written.Write(buffer[:n])
		for _, drawn := range drawnLine.FindAllSubmatch(s.written.Bytes(), -1) {
			at, _ := strconv.Atoi(string(drawn[1]))
			s.lines[at] = string(drawn[2])
		}
		s.mu.Unlock()
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
}

// await waits until a text is on the screen, within its height.
func (s *screen) await(t *testing.T, text string, height int) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		var all []string
		for at := range height {
			all = append(all, s.lines[at+1])
		}
		s.mu.Unlock()
		if strings.Contains(strings.Join(all, "\n"), text) {
			return
		}
		select {
		case <-s.changed:
		case <-deadline:
			t.Fatalf("%q does not come on the screen:\n%s", text, strings.Join(all, "\n"))
		}
	}
}

func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() || r.URL.Path != "/console/api/overview" || r.Header.Get("Authorization") != "Bearer t" {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"error":{"code":"unavailable","message":"nothing answers"}}`)
			return
		}
		_ = json.NewEncoder(w).Encode(large())
	}))
	defer server.Close()
	s, tty := openScreen(t, 80, 24)
	ended := make(chan error, 1)
	from := Source{URL: server.URL, Header: bearer("t")}
	go func() { ended <- Top(t.Context(), from, tty) }()
	press := func(keys string) {
		if _, err := s.master.WriteString(keys); err != nil {
			t.Fatal(err)
		}
	}
	s.await(t, "1,234,567 online", 24)
	s.await(t, "partitions: 64, 1 to", 24)
	press("g")
	s.await(t, "gateways: 31, 1 to", 24)
	s.resize(t, 180, 60)
	s.await(t, "gateways: 31\n", 60)
	down.Store(true)
	s.await(t, "NOT CONNECTED", 60)
	s.await(t, "nothing answers", 60)
	down.Store(false)
	s.await(t, "stillhere top", 60)
	press("q")
	if err := <-ended; err != nil {
		t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := s.written.String(); !strings.HasPrefix(text, enter) {
		t.Errorf("it begins with %.40q", text)
	}
}

func bearer(token string) func(context.Context) (http.Header, error) {
	return func(context.Context) (http.Header, error) {
		return http.Header{"Authorization": {"Bearer " + token}}, nil
	}
}
