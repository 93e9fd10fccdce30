package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func get(t *testing.T, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	mux := http.NewServeMux()
	servePages(mux)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

func TestThePagesAreServedAsTheyAreAndCompressed(t *testing.T) {
	t.Parallel()
	index := must.Get(fs.ReadFile(files, "dist/index.html"))(t)
	plain := get(t, "/console/")
	if plain.Code != http.StatusOK || !bytes.Equal(plain.Body.Bytes(), index) || !strings.HasPrefix(plain.Header().Get("Content-Type"), "text/html") {
		t.Fatalf("%d %v", plain.Code, plain.Header())
	}
	if policy := plain.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("the content policy is %q", policy)
	}
	script := must.Get(fs.ReadFile(files, "dist/console.js"))(t)
	squeezed := get(t, "/console/console.js", "Accept-Encoding", "br, gzip")
	if squeezed.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("%v", squeezed.Header())
	}
	reader := must.Get(gzip.NewReader(squeezed.Body))(t)
	if text, err := io.ReadAll(reader); err != nil || !bytes.Equal(text, script) {
		t.Errorf("compressed it is %d bytes (%v)", len(text), err)
	}
	if w := get(t, "/console/console.js", "Accept-Encoding", "gzip;q=0"); w.Header().Get("Content-Encoding") != "" {
		t.Error("it is compressed for who does not want it")
	}
	if w := get(t, "/console/", "If-None-Match", plain.Header().Get("ETag")); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
		t.Errorf("who has it is answered %d", w.Code)
	}
}

func TestThePathWithoutASlashLeadsThereAlsoBehindAProxyOfAnotherPath(t *testing.T) {
	t.Parallel()
	if w := get(t, "/console?a=1"); w.Code != http.StatusTemporaryRedirect || w.Header().Get("Location") != "console/?a=1" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	for _, path := range []string{"/console/nothing.js", "/console/dist/index.html", "/console/embed.go"} {
		if w := get(t, path); w.Code != http.StatusNotFound {
			t.Errorf("%s is answered %d", path, w.Code)
		}
	}
}
