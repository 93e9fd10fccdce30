package app

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/pipe"
)

func TestClientsThatTrickleTheirRequestsAreCutOffAndHoldUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const trickling = 5000
		l := pipe.Listen()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "here") }), serverConfig{writeTimeout: writeTimeout, maxHeader: minHeader}, slog.New(slog.DiscardHandler))(ctx)
		}()
		var open atomic.Int32
		for range trickling {
			conn, _ := l.DialContext(t.Context(), "", "")
			open.Add(1)
			go func() {
				defer open.Add(-1)
				defer conn.Close()
				if _, err := io.WriteString(conn, "GET /presence/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nX: "); err != nil {
					return
				}
				go func() { _, _ = io.Copy(io.Discard, conn) }() // whatever it is told
				for {
					time.Sleep(time.Second)
					if _, err := conn.Write([]byte("x")); err != nil {
						return
					}
				}
			}()
		}
		time.Sleep(4 * time.Second)
		if n := open.Load(); n != trickling {
			t.Errorf("%d of %d are connected", n, trickling)
		}
		begun := time.Now()
		healthy, _ := l.DialContext(t.Context(), "", "")
		fmt.Fprint(healthy, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		answer, err := http.ReadResponse(bufio.NewReader(healthy), nil)
		if err != nil || answer.StatusCode != http.StatusOK || time.Since(begun) > 0 {
			t.Errorf("beside them a request is answered %v, %v, after %s", answer, err, time.Since(begun))
		}
		healthy.Close()
		time.Sleep(3 * time.Second)
		if n := open.Load(); n != 0 {
			t.Errorf("%d are still connected, two seconds after the time for a header", n)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
