package app

import (
	"bytes"
	"io"
	"net/http"
	"time"
)

// closeUnread answers requests whose body the handler does not read at once, with
// "Connection: close", and closes the connection. net/http would read the body first,
// for as long as the client likes to take.
func closeUnread(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		body := &trackedBody{ReadCloser: r.Body}
		answer := &earlyAnswerWriter{ResponseWriter: w, body: body}
		with := *r // the server looks at its own
		with.Body = body
		next.ServeHTTP(answer, &with)
		answer.begin()
	})
}

// trackedBody knows whether it was read to its end.
type trackedBody struct {
	io.ReadCloser
	ended bool
}

func (b *trackedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err == io.EOF
	return n, err
}

// earlyAnswerWriter gives up the connection when the answer begins before the body has
// ended.
type earlyAnswerWriter struct {
	http.ResponseWriter
	body  *trackedBody
	begun bool
}

// Unwrap is for http.ResponseController.
func (w *earlyAnswerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *earlyAnswerWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.begin()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *earlyAnswerWriter) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

func (w *earlyAnswerWriter) begin() {
	if w.begun {
		return
	}
	if w.begun = true; w.body.ended {
		return
	}
	// Reading beyond its limit, MaxBytesReader has the server say "Connection: close" and
	// close in a way that lets a client that is still sending read the answer first.
	_, _ = http.MaxBytesReader(w.ResponseWriter, io.NopCloser(bytes.NewReader([]byte{0})), 0).Read(make([]byte, 1))
	// Nothing more is waited for. A writer that cannot do that (a test's recorder) has no
	// client behind it.
	_ = http.NewResponseController(w.ResponseWriter).SetReadDeadline(time.Unix(1, 0))
}
