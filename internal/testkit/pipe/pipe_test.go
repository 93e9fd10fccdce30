package pipe

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestBothEndsOfAPipeMayWriteBeforeTheyRead(t *testing.T) {
	t.Parallel()
	a, b := New()
	text := strings.Repeat("0123456789", 1000)
	for _, end := range []net.Conn{a, b} {
		must.Get(io.WriteString(end, text))(t)
	}
	for _, end := range []net.Conn{a, b} {
		got := make([]byte, len(text))
		if _, err := io.ReadFull(end, got); err != nil || string(got) != text {
			t.Fatalf("read %d bytes: %v", len(got), err)
		}
	}
}

func TestAPipeCarriesWhatItsWriterLeftAndThenEnds(t *testing.T) {
	t.Parallel()
	a, b := New()
	must.Get(io.WriteString(a, "last words"))(t)
	a.Close()
	if got, err := io.ReadAll(b); err != nil || string(got) != "last words" {
		t.Fatalf("read %q: %v", got, err)
	}
	if _, err := io.WriteString(b, "too late"); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("writing to a closed end: %v", err)
	}
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("reading from an end after its Close: %v", err)
	}
}

func TestAPipeThatIsFullWaitsForItsReaderOrItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := New()
		began := time.Now()
		_ = a.SetDeadline(began.Add(time.Minute))
		if n, err := a.Write(make([]byte, pipeBuffer+1)); n != pipeBuffer || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("wrote %d: %v", n, err)
		}
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		_ = a.SetDeadline(time.Time{})
		go func() {
			time.Sleep(time.Second)
			_, _ = io.CopyN(io.Discard, b, 1)
		}()
		if n, err := a.Write([]byte{1}); n != 1 || err != nil || time.Since(began) != time.Minute+time.Second {
			t.Errorf("wrote %d after %s: %v", n, time.Since(began), err)
		}
		// Close ends a read that waits.
		go func() { time.Sleep(time.Second); a.Close() }()
		must.Get(io.Copy(io.Discard, b))(t)
	})
}
