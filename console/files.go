package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// policy lets the pages load and ask what is served beside them, and nothing else.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// page is an embedded file as it is answered.
type page struct {
	kind, tag       string
	plain, squeezed []byte // squeezed is gzip; nil: it would be no smaller
}

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
	for name, file := range readPages() {
		if name == "index.html" {
			mux.Handle("GET /console/{$}", file)
			continue
		}
		mux.Handle("GET /console/"+name, file)
	}
}

func readPages() map[string]*page {
	all := map[string]*page{}
	err := fs.WalkDir(files, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err == nil {
			all[strings.TrimPrefix(name, "dist/")] = newPage(name, text)
		}
		return err
	})
	if err != nil {
		panic(err) // they are part of the program
	}
	return all
}

func newPage(name string, text []byte) *page {
	sum := sha256.Sum256(text)
	p := &page{kind: mime.TypeByExtension(path.Ext(name)), tag: `"` + hex.EncodeToString(sum[:12]) + `"`, plain: text}
	if p.kind == "" {
		p.kind = "application/octet-stream"
	}
	var squeezed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&squeezed, gzip.BestCompression)
	_, _ = w.Write(text) // into memory
	_ = w.Close()
	if squeezed.Len() < len(text) {
		p.squeezed = squeezed.Bytes()
	}
	return p
}

// ServeHTTP answers with the file. Browsers ask each time whether it is still the same: their names do
// not change with their content.
func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-cache")
	header.Set("Content-Security-Policy", contentPolicy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("ETag", p.tag)
	header.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("If-None-Match"), p.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", p.kind)
	body := p.plain
	if p.squeezed != nil && acceptsGzip(r) {
		header.Set("Content-Encoding", "gzip")
		body = p.squeezed
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // an error means that the client disconnected
	}
}

func acceptsGzip(r *http.Request) bool {
	for _, encoding := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(encoding), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q := strings.ReplaceAll(quality, " ", "")
			return q != "q=0" && q != "q=0.0"
		}
	}
	return false
}
