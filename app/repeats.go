package app

import (
	"bytes"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/tracing/otlp"
	"github.com/stillhere/stillhere/lastseen/query"
)

// repeats answers batch reads of a connection before net/http sees them, if they differ from one that
// net/http has read and the endpoint answered in nothing but the ids. Half of the cost of such a
// read is net/http's.
//
// The bytes of a request must never be taken for a request where net/http sees something else, such
// as a body. So it is certain where a request begins: the connection has sent nothing but whole
// requests without a body, each in one piece, and net/http has answered the last one. After anything
// else (a body, a pipelined request, one in two pieces) the connection is net/http's for good.
//
// All checks before the endpoint depend on the head, which is the same, and on time. So they run again
// after repeatFor at the latest. Where a check counts requests or needs the request's context, net/http
// sees all requests (repeatsOf).
type repeats struct {
	underway *atomic.Int64 // how many are being answered, on all connections; nil: none ever is

	mu      sync.Mutex // never held while anything blocks
	at      boundary
	current bool        // known is the request that net/http has
	busy    bool        // a repeated request is being answered
	closing bool        // Close was called meanwhile
	known   *repeatable // nil: there was none on this connection
}

// repeatFor is how long a request may be repeated before all checks see it again. Idle connections and
// deadlines of net/http need no care within so short a time.
const repeatFor = time.Second

// boundary is what is known of the next byte of a connection.
type boundary uint8

const (
	between boundary = iota // it begins a request
	within                  // net/http has one whole request without a body, and is not ready for the next
	unknown                 // nothing is known, for good
)

// repeatable is a batch read.
type repeatable struct {
	head   []byte // as it came
	tail   []byte // what follows its query in head
	until  time.Time
	answer query.Answer // nil: net/http has to answer
}

// batchStart is what the head begins with, up to the query.
const batchStart = "GET /presence/batch" + "?"

// queryOf returns the query of a request that repeats k.
func (k *repeatable) queryOf(request []byte, now time.Time) ([]byte, bool) {
	if k.answer == nil || !now.Before(k.until) || len(request) < len(batchStart)+len(k.tail) ||
		string(request[:len(batchStart)]) != batchStart || !bytes.HasSuffix(request, k.tail) {
		return nil, false
	}
	return request[len(batchStart) : len(request)-len(k.tail)], true
}

// answered takes the bytes of one Read and reports whether they were a request that it has answered.
// Otherwise they are for net/http.
func (r *repeats) answered(conn net.Conn, read []byte) bool {
	if len(read) == 0 || r.underway == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == between && r.known != nil {
		if query, ok := r.known.queryOf(read, time.Now()); ok && r.ask(conn, query) {
			return true
		}
	}
	r.current = false
	if r.at != between || !wholeRequest(read) {
		r.at, r.known = unknown, nil
		return false
	}
	r.at = within
	r.learn(read)
	return false
}

// ask has a repeated request answered. It gives up mu meanwhile, and has it again also after a panic.
func (r *repeats) ask(conn net.Conn, query []byte) (ok bool) {
	k := r.known
	r.busy = true
	r.underway.Add(1)
	r.mu.Unlock()
	defer func() {
		r.underway.Add(-1)
		r.mu.Lock()
		if r.busy = false; !ok {
			k.answer = nil // net/http has to answer the next requests too
		}
	}()
	return k.answer(conn, query)
}

// learn keeps the request that net/http gets if it may be repeated.
func (r *repeats) learn(request []byte) {
	line, _, _ := bytes.Cut(request, []byte("\r\n"))
	query, proto, ok := bytes.Cut(bytes.TrimPrefix(line, []byte(batchStart)), []byte(" "))
	if !ok || !bytes.HasPrefix(request, []byte(batchStart)) || string(proto) != "HTTP/1.1" {
		return
	}
	if r.known == nil {
		r.known = new(repeatable)
	}
	k := r.known
	k.head, k.answer = append(k.head[:0], request...), nil
	k.tail, r.current = k.head[len(batchStart)+len(query):], true
}

// idle is called when net/http has answered a request and waits for the next.
func (r *repeats) idle(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at != within {
		return
	}
	r.at, r.current = between, false
	if r.known != nil && r.known.answer != nil {
		// net/http has taken its own away. It sets the next when it reads a request.
		_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // fails only on a closed connection
	}
}

// open reports whether the request that net/http has now can be repeated.
func (r *repeats) open() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at == within && r.current
}

// offer has requests that repeat the present one answered until then.
func (r *repeats) offer(until time.Time, answer query.Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == within && r.current {
		r.known.until, r.known.answer = until, answer
	}
}

// postpones reports whether the connection must not be closed yet. Shutdown closes connections that
// net/http believes to be idle.
func (r *repeats) postpones() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closing = r.closing || r.busy
	return r.busy
}

// due reports whether the connection has to be closed now, because of an earlier postpones.
func (r *repeats) due() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closing && !r.busy
}

// wholeRequest reports whether read is the head of one request, its lines of the strictest form:
// net/http then sees its end at the same place. If it has a body, that comes in another Read.
func wholeRequest(read []byte) bool {
	for {
		line, rest, ok := bytes.Cut(read, []byte("\n"))
		switch {
		case !ok || len(line) == 0 || line[len(line)-1] != '\r' || bytes.IndexByte(line, '\r') != len(line)-1:
			return false
		case len(line) == 1:
			return len(rest) == 0
		case line[0]|0x20 < 'a' || line[0]|0x20 > 'z':
			return false
		}
		read = rest
	}
}

// repeatsOf returns how the endpoint offers to answer repetitions of r itself; nil: net/http must see
// each. They are not counted and not traced, and access to the graph needs the request's context.
func repeatsOf(r *http.Request, access *decision) func(query.Answer) {
	conn, caller := connOf(r), ingest.CallerOf(r.Context())
	if conn == nil || !conn.repeats.open() || access != nil || otlp.On() || conn.hasBehind() ||
		caller != nil && caller.Gateway == "" { // gateways have no limit
		return nil
	}
	until := time.Now().Add(repeatFor)
	if caller != nil && caller.Until.Before(until) {
		until = caller.Until
	}
	return func(answer query.Answer) { conn.repeats.offer(until, answer) }
}
