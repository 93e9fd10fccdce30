package query

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Answer writes the complete HTTP/1.1 response to a request with this query, and keeps nothing of it. If
// that fails, it closes to. If it returns false, it has written nothing, and the request needs the endpoint.
type Answer func(to io.WriteCloser, query []byte) bool

// SetRepeats makes of decide whether requests that differ from a batch read by GET in nothing but their
// query may be answered without the endpoint: it returns what takes their Answer, or nil. It is asked
// while the request is served. Call it before Routes.
func (s *Server) SetRepeats(of func(*http.Request) func(Answer)) { s.repeats = of }

// repeat answers as fast does with the same header and viewer. count is called for each answer.
func (s *Server) repeat(header http.Header, viewer Viewer, count func(started time.Time)) Answer {
	var head bytes.Buffer
	head.WriteString("HTTP/1.1 200 OK\r\n")
	_ = header.Write(&head) // a buffer takes everything
	length := []byte("Content-Length: ")
	before, after, _ := bytes.Cut(head.Bytes(), length)
	_, after, _ = bytes.Cut(after, []byte("\r\n"))
	before = append(before[:len(before):len(before)], length...)
	r := s.reader
	return func(to io.WriteCloser, query []byte) bool {
		started := time.Now()
		b, _ := scratches.Get().(*scratch)
		defer scratches.Put(b)
		if !b.parse(query) {
			return false
		}
		progress := r.fromRedis(context.Background(), b.ids, b.entries)
		body, stale, settled := r.appendStates(append(b.body[:0], '{'), viewer, b.ids, b.entries, progress)
		if b.body = append(body, "}\n"...); !settled || stale != 0 {
			return false
		}
		answer := strconv.AppendInt(append(b.answer[:0], before...), int64(len(b.body)), 10)
		answer = append(append(append(answer, "\r\n"...), after...), "Date: "...)
		answer = append(started.UTC().AppendFormat(answer, http.TimeFormat), "\r\n\r\n"...)
		b.answer = append(answer, b.body...)
		if _, err := to.Write(b.answer); err != nil {
			_ = to.Close() // a part may have been sent: no other response may follow it
		}
		count(started)
		return true
	}
}
