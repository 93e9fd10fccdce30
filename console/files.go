package console

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"
)

// policy lets the pages load and ask what is served beside them, and nothing else.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// servePages serves the embedded files below /console/.
func servePages(mux *http.ServeMux) {
	mux.HandleFunc("GET /console", func(w http.ResponseWriter, r *http.Request) {
		location := "console/" // relative, for proxies that serve this below another path
		if r.URL.RawQuery != "" {
			location += "?" + r.URL.RawQuery
		}
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	names, err := fs.Glob(files, "dist/*")
	if err != nil {
		panic(err) // they are part of the program
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			panic(err)
		}
		pattern := strings.TrimPrefix(name, "dist/")
		if pattern == "index.html" {
			pattern = "{$}"
		}
		mux.Handle("GET /console/"+pattern, gzhttp.GzipHandler(serveFile(name, text)))
	}
}

// serveFile answers with a file. Browsers ask each time whether it is still the same: names do not change with the
// content.
func serveFile(name string, text []byte) http.HandlerFunc {
	sum := sha256.Sum256(text)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	return func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-cache")
		header.Set("Content-Security-Policy", contentPolicy)
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("ETag", tag)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
	}
}
