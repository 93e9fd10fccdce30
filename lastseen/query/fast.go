package query

import (
	"bytes"
	"context"
	"math/bits"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// scratch is the memory of one batch read; it is used again.
type scratch struct {
	query   []byte
	ids     []schemas.UserID
	texts   []span // of the ids in the query
	entries []redisview.Entry
	briefs  []redisview.Brief
	body    []byte
	answer  []byte
	// slots is a hash table of the ids: 1 + the index of each.
	slots [2 * 1024]uint16
}

// span is a part of a query, which is shorter than 1,000 ids of 18 digits with separators of 3 characters.
type span struct{ from, to uint16 }

var scratches = sync.Pool{New: func() any { return new(scratch) }}

var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
	idsIs    = []byte(idsField + "=")
)

// fastBatch answers GET /presence/batch as plain does, without an allocation for each id, where the
// query is nothing but ids and Redis settles all of them. What is read once is not read again when
// it does not.
func (s *Server) fastBatch(route string, plain read) http.Handler {
	answered, times := s.metrics.Requests.WithLabelValues(route, "200"), s.metrics.RequestTime.WithLabelValues(route)
	count := func(started time.Time) {
		answered.Inc()
		times.Observe(time.Since(started).Seconds())
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		started := time.Now()
		b, _ := scratches.Get().(*scratch)
		defer scratches.Put(b)
		if b.query = append(b.query[:0], request.URL.RawQuery...); !b.parse(b.query) {
			s.serve(w, request, route, started, plain)
			return
		}
		then := s.fast(w, request, b, count)
		if then != nil {
			s.serve(w, request, route, started, then)
			return
		}
		count(started)
	})
}

// fast answers, or returns what is left to do.
func (s *Server) fast(w http.ResponseWriter, request *http.Request, b *scratch, count func(time.Time)) read {
	if err := s.chargeFor(request, len(b.ids)); err != nil {
		return func(context.Context, *http.Request, http.Header) ([]byte, error) { return nil, err }
	}
	if s.access != nil && !s.seesAll(request, b.ids) {
		return func(ctx context.Context, request *http.Request, header http.Header) ([]byte, error) {
			answers, err := s.allowed(ctx, request, b.ids)
			if err != nil {
				return nil, err
			}
			return statesOf(b.ids, answers, header), nil
		}
	}
	viewer, r := s.viewerOf(request), s.reader
	b.entries = grown(b.entries, len(b.ids))
	progress := r.fromRedis(request.Context(), b.ids, b.entries)
	for i := range b.entries {
		b.briefs[i] = b.entries[i].Brief()
	}
	stale, settled := r.appendStates(b, b.query, viewer, progress)
	if !settled {
		return func(ctx context.Context, _ *http.Request, header http.Header) ([]byte, error) {
			answers, err := r.judge(ctx, b.ids, b.entries, progress)
			if err != nil {
				return nil, err
			}
			r.show(viewer, b.ids, answers)
			return statesOf(b.ids, answers, header), nil
		}
	}
	header := w.Header()
	header["Content-Type"], header["Cache-Control"] = jsonType, noStore
	header["Content-Length"] = []string{strconv.Itoa(len(b.body))}
	if stale != 0 {
		header.Set(staleHeader, stale.String())
	} else if s.access == nil && s.repeats != nil {
		if offer := s.repeats(request); offer != nil && header["Connection"] == nil {
			offer(s.repeat(header, viewer, count))
		}
	}
	_, _ = w.Write(b.body) // the client may have left
	return nil
}

// seesAll reports whether the sender may see all of the users.
func (s *Server) seesAll(request *http.Request, ids []schemas.UserID) bool {
	ctx, cancel := context.WithTimeout(request.Context(), s.config.ReadTimeout)
	defer cancel()
	refused, err := s.access.Refused(request.WithContext(ctx), ids)
	return err == nil && len(refused) == 0
}

// appendStates makes of b's briefs the body that statesOf would, and returns the earliest stale_since.
// settled is false if Redis does not settle a user; judge can then go on with what was read.
func (r *Reader) appendStates(b *scratch, query []byte, v Viewer, progress redisview.ProgressMap) (stale schemas.Millis, settled bool) {
	now, staleUsers := schemas.MillisOf(time.Now()), 0
	body := append(b.body[:0], '{')
	for i, id := range b.ids {
		partition := schemas.PartitionOf(id, r.partitions)
		progress, known := progress[partition]
		e := &b.briefs[i]
		if !known || progress.Rebuilding || !e.Complete || e.Epoch < progress.Epoch {
			return 0, false
		}
		if since := r.staleSince(now, partition, progress, true); since != 0 {
			staleUsers++
			if stale == 0 || since < stale {
				stale = since
			}
		}
		if i > 0 {
			body = append(body, ',')
		}
		text := b.texts[i] // an id that parse takes is written as in the query
		body = append(append(append(body, '"'), query[text.from:text.to]...), `":`...)
		switch {
		case e.Visibility != schemas.Nobody || v.seesHidden(id):
			body = appendWord(body, e.State)
		case r.config.HiddenOffline:
			body = appendWord(body, schemas.Offline)
		default:
			body = append(body, "null"...)
		}
	}
	b.body = append(body, "}\n"...)
	r.readUsers[0].Add(float64(len(b.ids)))
	if staleUsers > 0 {
		r.metrics.ReadStale.Add(float64(staleUsers))
	}
	return stale, true
}

// parse reads a query that is nothing but user_ids with up to 1,000 ids, and drops repeated ones.
// Everything else, and what could be wrong, is left to parseIDs.
func (b *scratch) parse(query []byte) bool {
	list, ok := bytes.CutPrefix(query, idsIs)
	if !ok {
		return false
	}
	b.ids, b.texts = b.ids[:0], b.texts[:0]
	// A separator takes one byte and an id another.
	shift := 64 - min(bits.Len(uint(len(list)/2+1))+1, bits.Len(uint(len(b.slots)))-1)
	clear(b.slots[:1<<(64-shift)])
	for count, more := 0, true; more; {
		const digits = 18 // of numbers that surely fit
		var id schemas.UserID
		n := 0
		rest := list
		if len(list) > 0 && list[0] == '0' { // an id has no leading zeros
			return false
		}
		for ; n < len(list) && list[n] >= '0' && list[n] <= '9'; n++ {
			id = 10*id + schemas.UserID(list[n]-'0')
		}
		if count++; n == 0 || n > digits || id == 0 || count > maxIDs {
			return false
		}
		switch list = list[n:]; {
		case len(list) == 0:
			more = false
		case list[0] == ',':
			list = list[1:]
		case len(list) > 2 && list[0] == '%' && list[1] == '2' && list[2]|0x20 == 'c': // a comma, too
			list = list[3:]
		default:
			return false
		}
		at := len(query) - len(rest)
		b.add(id, span{uint16(at), uint16(at + n)}, shift)
	}
	b.briefs = grown(b.briefs, len(b.ids))
	return true
}

// add adds id unless it is there. The table has more slots than there are ids.
func (b *scratch) add(id schemas.UserID, text span, shift int) {
	const golden = 0x9e3779b97f4a7c15 // 2^64 by the golden ratio: Fibonacci hashing
	last := uint64(1)<<(64-shift) - 1
	for slot := uint64(id) * golden >> shift; ; slot = (slot + 1) & last {
		switch at := b.slots[slot]; {
		case at == 0:
			b.ids, b.texts = append(b.ids, id), append(b.texts, text)
			b.slots[slot] = uint16(len(b.ids))
			return
		case b.ids[at-1] == id:
			return
		}
	}
}

// grown is of the length n; what it holds means nothing.
func grown[T any](some []T, n int) []T {
	if cap(some) < n {
		return make([]T, n)
	}
	return some[:n]
}
