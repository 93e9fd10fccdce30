package query_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/schemas"
)

// exporting is a server whose exports are written by export.
func exporting(t *testing.T, export func(ctx context.Context, to io.Writer) error) *httptest.Server {
	t.Helper()
	w := newWorld(t, redistest.Mini(t))
	w.server.SetExport(func(ctx context.Context, _ schemas.UserID, _ schemas.Name, to io.Writer) error {
		return export(ctx, to)
	})
	mux := http.NewServeMux()
	w.server.Routes(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func open(t *testing.T, server *httptest.Server) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/presence/7/export", nil)
	must.Do(t, err)
	answer := must.Get(server.Client().Do(request))(t)
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

func TestAnExportThatFailsInTheMiddleIsNotTakenForAWholeOne(t *testing.T) {
	t.Parallel()
	for length, wanted := range map[int]int{10: http.StatusServiceUnavailable, 200_000: http.StatusOK} {
		answer := open(t, exporting(t, func(_ context.Context, to io.Writer) error {
			_, err := to.Write([]byte(strings.Repeat("x", length)))
			return errors.Join(err, errAway)
		}))
		_, err := io.ReadAll(answer.Body)
		if answer.StatusCode != wanted || (err != nil) != (wanted == http.StatusOK) {
			t.Errorf("after %d bytes: %d, and reading it ends with %v", length, answer.StatusCode, err)
		}
	}
}

func TestAThirdExportAtOnceIsRefusedAndTheOthersAreSentAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	finish := make(chan struct{})
	server := exporting(t, func(ctx context.Context, to io.Writer) error {
		if _, err := to.Write([]byte(strings.Repeat("x", 100_000) + "\n")); err != nil {
			return err
		}
		select {
		case <-finish:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	var running []*bufio.Reader
	for range 2 {
		reader := bufio.NewReader(open(t, server).Body)
		must.Get(reader.Peek(1000))(t)
		running = append(running, reader)
	}
	third := open(t, server)
	if third.StatusCode != http.StatusServiceUnavailable || third.Header.Get("Retry-After") == "" {
		t.Errorf("a third export is answered %d %v", third.StatusCode, third.Header)
	}
	close(finish)
	for _, reader := range running {
		if rest, err := io.ReadAll(reader); err != nil || len(rest) != 100_001 {
			t.Errorf("%d bytes (%v)", len(rest), err)
		}
	}
}
