// Package page is the page that dev serves at its root: the presence of users as dots that
// change through the live stream. People have ids there, or, with --ids text, names within a tenant. It uses the public endpoints only.
package page

import (
	"bytes"
	_ "embed"
	"net/http"
)

//go:embed index.html
var index []byte

// Routes registers the page with mux, at the root and nowhere else. named says that users have names.
func Routes(mux *http.ServeMux, named bool) {
	index := index
	if named {
		index = bytes.Replace(index, []byte(`data-ids="int"`), []byte(`data-ids="text"`), 1)
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		// Everything is in the page; nothing may come from or go elsewhere.
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'")
		_, _ = w.Write(index) // an error means that the client disconnected
	})
}
