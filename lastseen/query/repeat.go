package query

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/lastseen/redisview"
)

// Answer writes the complete HTTP/1.1 response to a request with this query, and keeps nothing of it. If
// that fails, it closes to. If it returns false, it has written nothing, and the request needs the endpoint.
// One goroutine may use it at a time.
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
	r, limit, now := s.reader, &redisview.TimeLimit{Within: s.reader.config.RedisTimeout}, date{}
	return func(to io.WriteCloser, query []byte) bool {
		started := time.Now()
		b, _ := scratches.Get().(*scratch)
		defer scratches.Put(b)
		if !b.parse(query) {
			return false
		}
		progress, err := r.view.ReadBriefs(limit, b.ids, b.briefs)
		if err != nil {
			r.metrics.ReadRedisLost.Inc()
			return false
		}
		if stale, settled := r.appendStates(b, query, viewer, progress); !settled || stale != 0 {
			return false
		}
		answer := strconv.AppendInt(append(b.answer[:0], before...), int64(len(b.body)), 10)
		answer = append(append(append(answer, "\r\n"...), after...), "Date: "...)
		answer = append(append(answer, now.at(started)...), "\r\n\r\n"...)
		b.answer = append(answer, b.body...)
		if _, err := to.Write(b.answer); err != nil {
			_ = to.Close() // a part may have been sent: no other response may follow it
		}
		count(started)
		return true
	}
}

// date is a second as a header has it.
type date struct {
	second int64
	text   []byte
}

func (d *date) at(t time.Time) []byte {
	if second := t.Unix(); second != d.second || d.text == nil {
		d.second, d.text = second, t.UTC().AppendFormat(d.text[:0], http.TimeFormat)
	}
	return d.text
}
