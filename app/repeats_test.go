package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// evenOnline is a Redis in which even users are online and odd ones are away. User 13 is not there, and
// not in the store either. An answer takes a while.
type evenOnline struct {
	query.View
	store.Reader
	takes time.Duration
	lost  atomic.Bool // Redis does not answer
}

func (e *evenOnline) ReadInto(ctx context.Context, ids []schemas.UserID, entries []redisview.Entry) (redisview.ProgressMap, error) {
	time.Sleep(e.takes)
	if e.lost.Load() {
		return nil, context.DeadlineExceeded
	}
	for i, id := range ids {
		entries[i] = redisview.Entry{Found: id != 13, Epoch: 1, Current: schemas.Current{User: id, State: schemas.Online - schemas.State(id%2), Since: 1, Version: 1}}
	}
	return redisview.ProgressMap{0: {Epoch: 1, Watermark: schemas.MillisOf(time.Now())}}, nil
}

func (e *evenOnline) ReadBriefs(limit *redisview.TimeLimit, ids []schemas.UserID, briefs []redisview.Brief) (redisview.ProgressMap, error) {
	entries := make([]redisview.Entry, len(ids))
	progress, err := e.ReadInto(context.Background(), ids, entries)
	for i := range entries {
		briefs[i] = entries[i].Brief()
	}
	return progress, err
}

func (e *evenOnline) Users(context.Context, []schemas.UserID) (map[schemas.UserID]schemas.Current, error) {
	return nil, nil
}

// readsServer serves batch reads, and a POST that returns its body, on connections of dial.
type readsServer struct {
	*pipes
	redis   evenOnline
	caller  *ingest.Caller
	reached int // requests that came to the endpoints
	stop    func() error
}

func serveReads(t *testing.T, repeat bool) *readsServer {
	t.Helper()
	s := &readsServer{pipes: &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}}
	s.redis.takes = time.Millisecond
	reads := query.NewServer(query.NewReader(&s.redis, &s.redis, 1, lastseen.Defaults(), lastseen.NewMetrics(prometheus.NewRegistry())), slog.New(slog.DiscardHandler))
	if repeat {
		reads.SetRepeats(func(r *http.Request) func(query.Answer) { return repeatsOf(r, nil) })
	}
	mux := http.NewServeMux()
	reads.Routes(mux)
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.reached++
		if s.caller != nil {
			r = r.WithContext(ingest.WithCaller(r.Context(), s.caller))
		}
		mux.ServeHTTP(w, r)
	})
	log := slog.New(slog.DiscardHandler)
	l := newBounded(s.pipes, clientPort, 100, 0, newConnectionMetrics(prometheus.NewRegistry()), log)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve(l, trustProxies(nil, l, allowHosts("127.0.0.1:80", nil, handler)), serverConfig{writeTimeout: writeTimeout, maxHeader: minHeader}, log)(ctx)
	}()
	s.stop = func() error { cancel(); return <-ended }
	return s
}

// answersTo returns what the server sends to a client that sends pieces, and how many requests came to
// an endpoint. Each piece is written at once. After 0 the client waits for an answer, after 1 it does
// not.
func answersTo(t *testing.T, repeat bool, pieces []byte) (answers string, reached int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := serveReads(t, repeat)
		conn := s.dial()
		all := make(chan string, 1)
		go func() {
			got, _ := io.ReadAll(conn) // until one of both closes it
			all <- string(got)
		}()
		for len(pieces) > 0 {
			piece, end := pieces, len(pieces)
			if i := bytes.IndexAny(pieces, "\x00\x01"); i >= 0 {
				piece, end = pieces[:i], i+1
			}
			if _, err := conn.Write(piece); err != nil {
				break
			}
			if end > len(piece) && pieces[end-1] == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			pieces = pieces[end:]
		}
		time.Sleep(time.Minute) // the server gives up what is not whole
		conn.Close()
		answers = <-all
		if err := s.stop(); err != nil {
			t.Error(err)
		}
		reached = s.reached
	})
	return answers, reached
}

func batchRequest(ids string) string {
	return "GET /presence/batch?user_ids=" + ids + " HTTP/1.1\r\nHost: localhost\r\nUser-Agent: x\r\n\r\n"
}

// requestPieces are what a client, or somebody who smuggles requests through a proxy, may send.
func requestPieces() []string {
	first, second := batchRequest("1,2,3"), batchRequest("4%2C5")
	return []string{
		first, second, first + second, first[:30], first[30:], second[:len(second)-2], "\r\n", "\n",
		batchRequest("13"), batchRequest("0"), batchRequest(""), batchRequest("1,2&user_id=5"), batchRequest("1 HTTP/1.1\r\nX:"),
		strings.Replace(second, "User-Agent: x", "User-Agent: y", 1),
		strings.Replace(second, "localhost", "elsewhere", 1),
		strings.Replace(second, "1.1\r", "1.0\r", 1),
		strings.Replace(second, "User", "Connection: close\r\nUser", 1),
		strings.Replace(second, "User", "Content-Length: 5\r\nUser", 1),
		strings.ReplaceAll(second, "\r\n", "\n"),
		strings.Replace(second, "User-Agent: x\r\n", "\n", 1) + second,
		strings.Replace(second, "User", " User", 1),
		strings.Replace(second, "GET", "HEAD", 1),
		strings.Replace(second, "/presence", "http://localhost/presence", 1),
		fmt.Sprintf("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", len(second)),
		fmt.Sprintf("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(second), second),
		fmt.Sprintf("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", len(second)),
		"\r\n0\r\n\r\n",
		"GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"POST /echo HTTP/1.1\r\nHost: localhost\r\nX: ",
	}
}

// FuzzAnswersAreTheSameWithRepeats holds the connection with repeats against net/http alone, byte for
// byte.
func FuzzAnswersAreTheSameWithRepeats(f *testing.F) {
	first := batchRequest("7")
	pieces := requestPieces()
	for _, a := range pieces {
		for i, b := range pieces {
			f.Add([]byte(first + "\x00" + a + string([]byte{byte(i % 2)}) + b + "\x00" + pieces[1]))
		}
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		if len(sent) > 8<<10 || bytes.Count(sent, []byte{0})+bytes.Count(sent, []byte{1}) > 50 {
			t.Skip()
		}
		with, _ := answersTo(t, true, sent)
		without, _ := answersTo(t, false, sent)
		if with != without {
			t.Errorf("%q is answered with\n%q\nand by net/http alone with\n%q", sent, with, without)
		}
	})
}

func TestRepeatedBatchesDoNotReachTheEndpointForASecond(t *testing.T) {
	t.Parallel()
	sent := strings.Repeat(batchRequest("2,3")+"\x00", 150) // 10 ms apart
	answers, reached := answersTo(t, true, []byte(sent))
	if n := strings.Count(answers, `{"2":"online","3":"away"}`); n != 150 || reached != 2 {
		t.Errorf("%d of 150 requests were answered, %d of them by the endpoint", n, reached)
	}
}

func TestABodyThatLooksLikeABatchIsNotAnswered(t *testing.T) {
	t.Parallel()
	inner := batchRequest("2")
	sent := batchRequest("2") + "\x00" + fmt.Sprintf("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", len(inner)) + "\x00" + inner
	answers, reached := answersTo(t, true, []byte(sent))
	if strings.Count(answers, `{"2":"online"}`) != 1 || !strings.HasSuffix(answers, inner) || reached != 2 {
		t.Errorf("%d requests; answers: %s", reached, answers)
	}
}

// repeated sends a batch twice, 10 ms apart, and returns how many of both reached the endpoint.
func repeated(t *testing.T, change func(s *readsServer)) (reached int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := serveReads(t, true)
		conn := s.dial()
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		change(s)
		for range 2 {
			fmt.Fprint(conn, batchRequest("2"))
			time.Sleep(10 * time.Millisecond)
		}
		conn.Close()
		if err := s.stop(); err != nil {
			t.Error(err)
		}
		reached = s.reached
	})
	return reached
}

func TestOnlyCallersWithoutALimitRepeatAndOnlyUntilTheirTokenExpires(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		caller  func() *ingest.Caller
		reached int
	}{
		"nobody":    {func() *ingest.Caller { return nil }, 1},
		"a gateway": {func() *ingest.Caller { return &ingest.Caller{Gateway: "g", Until: time.Now().Add(time.Hour)} }, 1},
		"an expiring one": {func() *ingest.Caller {
			return &ingest.Caller{Gateway: "g", Until: time.Now().Add(5 * time.Millisecond)}
		}, 2},
		"a user":   {func() *ingest.Caller { return &ingest.Caller{User: 1, Until: time.Now().Add(time.Hour)} }, 2},
		"an admin": {func() *ingest.Caller { return &ingest.Caller{User: 1, Any: true, Until: time.Now().Add(time.Hour)} }, 2},
	} {
		if n := repeated(t, func(s *readsServer) { s.caller = c.caller() }); n != c.reached {
			t.Errorf("%s: %d requests reach the endpoint, not %d", what, n, c.reached)
		}
	}
}

func TestAServerThatStopsAnswersTheRepeatedRequestUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveReads(t, true)
		conn := s.dial()
		fmt.Fprint(conn, batchRequest("2"))
		answer := make([]byte, 4096)
		if _, err := conn.Read(answer); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
		s.redis.takes = 400 * time.Millisecond
		begun := time.Now()
		fmt.Fprint(conn, batchRequest("4"))
		ended := make(chan error, 1)
		go func() { ended <- s.stop() }()
		rest, err := io.ReadAll(conn)
		if err != nil || !bytes.Contains(rest, []byte(`{"4":"online"}`)) || s.reached != 1 {
			t.Errorf("%d reached the endpoint; then %q, %v", s.reached, rest, err)
		}
		if err := <-ended; err != nil || time.Since(begun) < 400*time.Millisecond {
			t.Errorf("the server stopped after %s: %v", time.Since(begun), err)
		}
	})
}

func TestARepeatedRequestThatRedisDoesNotAnswerGetsTheEndpointsAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serveReads(t, true)
		conn := s.dial()
		var last string
		for i := range 3 {
			s.redis.lost.Store(i > 0)
			fmt.Fprint(conn, batchRequest("2"))
			answer := make([]byte, 4096)
			n, err := conn.Read(answer)
			if err != nil {
				t.Fatal(err)
			}
			last = string(answer[:n])
			time.Sleep(10 * time.Millisecond)
		}
		if !strings.Contains(last, "Stale-Since: ") || s.reached != 3 {
			t.Errorf("%d reached the endpoint, the last answer is %s", s.reached, last)
		}
		conn.Close()
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAPanicInARepeatedAnswerLeavesTheLockToItsOwner(t *testing.T) {
	t.Parallel()
	request := []byte(batchRequest("1,2"))
	r := repeats{underway: new(atomic.Int64)}
	if r.answered(nil, request) {
		t.Fatal("the first request is answered")
	}
	r.offer(time.Now().Add(time.Minute), func(io.WriteCloser, []byte) bool { panic("a fault") })
	r.at = between
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is lost") // net/http ends the connection with it
			}
		}()
		r.answered(nil, request)
	}()
	if r.underway.Load() != 0 || r.busy || !r.mu.TryLock() {
		t.Errorf("%d under way, busy is %t", r.underway.Load(), r.busy)
	}
}
