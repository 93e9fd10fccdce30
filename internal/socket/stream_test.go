package socket_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/socket"
)

func TestAnAnswerThatIsTakenOverKeepsItsHeadersAndEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	o := options()
	o.PingInterval = 5 * time.Millisecond
	ended := make(chan struct{})
	defer func() { <-ended }()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Access-Control-Allow-Origin", "https://chat.example")
		conn, err := socket.TakeOver(w, o)
		if err != nil {
			t.Error(err)
			close(ended)
			return
		}
		quiets := 0
		go func() {
			defer close(ended)
			conn.Watch(func() {
				if quiets++; quiets == 3 {
					conn.Abort()
				} else if err := conn.Send([]byte("quiet\n")); err != nil {
					t.Error(err)
				}
			})
			if conn.Send([]byte("too late")) == nil {
				t.Error("an ended connection takes more")
			}
		}()
	}))
	defer server.Close()
	// What the client says after its request is read away, and says nothing.
	body := strings.NewReader("what nobody asked for")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Access-Control-Allow-Origin") == "" || !answer.Close {
		t.Error(answer.Status, answer.Header)
	}
	if at, err := http.ParseTime(answer.Header.Get("Date")); err != nil || time.Since(at) > time.Minute {
		t.Error(at, err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil || string(text) != "quiet\nquiet\n" {
		t.Errorf("%q %v", text, err)
	}
}

func TestWhatCannotBeTakenOverIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	if _, err := socket.TakeOver(w, options()); !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
	if w.Body.Len() > 0 || w.Flushed {
		t.Error("it was answered")
	}
}
