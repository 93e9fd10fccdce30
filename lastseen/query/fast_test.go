package query

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// drawn is a Redis and a durable store that say what was drawn.
type drawn struct {
	entries  map[schemas.UserID]redisview.Entry
	progress redisview.ProgressMap
	durable  map[schemas.UserID]schemas.Current
	lost     bool // Redis does not answer
	down     bool // the store does not answer
}

var errDrawn = context.DeadlineExceeded

func (d *drawn) ReadInto(_ context.Context, ids []schemas.UserID, entries []redisview.Entry) (redisview.ProgressMap, error) {
	for i, id := range ids {
		entries[i] = d.entries[id] // a corrupt value is one that is not found
		if d.lost {
			entries[i].Found = true
		}
	}
	if d.lost {
		return nil, errDrawn
	}
	return d.progress, nil
}

func (d *drawn) ReadBriefs(_ *redisview.TimeLimit, ids []schemas.UserID, briefs []redisview.Brief) (redisview.ProgressMap, error) {
	for i, id := range ids {
		e := d.entries[id]
		briefs[i] = e.Brief()
	}
	if d.lost {
		return nil, errDrawn
	}
	return d.progress, nil
}

func (d *drawn) Unsure(_ context.Context, users []schemas.UserID) ([]redisview.Unsure, error) {
	return make([]redisview.Unsure, len(users)), nil
}

func (d *drawn) Seen(context.Context, []schemas.UserID) ([]redisview.Seen, error) {
	return nil, errDrawn
}

func (d *drawn) CountsOfTenant(context.Context, string, int32) (map[int32]redisview.PartitionCounts, error) {
	return nil, errDrawn
}

func (d *drawn) Counts(context.Context) (map[int32]redisview.PartitionCounts, error) {
	return nil, errDrawn
}

func (d *drawn) Users(_ context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.Current, error) {
	if d.down {
		return nil, errDrawn
	}
	some := map[schemas.UserID]schemas.Current{}
	for _, id := range ids {
		if c, found := d.durable[id]; found {
			some[id] = c
		}
	}
	return some, nil
}

func (d *drawn) Names(context.Context, []schemas.UserID) (map[schemas.UserID]schemas.UserName, error) {
	return nil, nil
}

func (d *drawn) Missed(context.Context, store.MissedQuery) (store.Missed, error) {
	return store.Missed{}, errors.New("not here")
}

func (d *drawn) History(context.Context, store.HistoryQuery) (store.Page, error) {
	return store.Page{}, errDrawn
}

// refusing may not see users divisible by its number; 0 may see all.
type refusing int64

func (n refusing) Refused(_ *http.Request, users []schemas.UserID) ([]schemas.UserID, error) {
	if n == 0 {
		return nil, nil
	}
	return slices.DeleteFunc(slices.Clone(users), func(u schemas.UserID) bool { return int64(u)%int64(n) != 0 }), nil
}

func (refusing) MayReadHistory(*http.Request, schemas.UserID) (bool, error) { return false, nil }

func drawCurrent(t *rapid.T, user schemas.UserID) schemas.Current {
	recent := rapid.Int64Range(0, 20_000)
	now := schemas.MillisOf(time.Now())
	c := schemas.Current{User: user, State: schemas.State(rapid.IntRange(1, 3).Draw(t, "state")),
		Since: now - schemas.Millis(recent.Draw(t, "since")), LastSeen: now - schemas.Millis(recent.Draw(t, "seen")),
		Visibility: schemas.Visibility(rapid.IntRange(1, 2).Draw(t, "visibility")),
		Version:    schemas.Version(rapid.IntRange(1, 9).Draw(t, "version"))}
	if rapid.IntRange(0, 9).Draw(t, "since is known") == 0 {
		c.Since = 0
	}
	if c.Visibility == schemas.Nobody {
		c.Hidden = schemas.Version(rapid.Int64Range(0, int64(c.Version)).Draw(t, "hidden"))
	}
	return c
}

func draw(t *rapid.T, users int) *drawn {
	now := schemas.MillisOf(time.Now())
	d := &drawn{entries: map[schemas.UserID]redisview.Entry{}, progress: redisview.ProgressMap{}, durable: map[schemas.UserID]schemas.Current{},
		lost: rapid.IntRange(0, 9).Draw(t, "lost") == 0, down: rapid.IntRange(0, 9).Draw(t, "down") == 0}
	intact := rapid.IntRange(0, 7).Draw(t, "intact") > 0 // else few draws would be settled by Redis
	for p := range int32(3) {
		progress := redisview.Progress{Epoch: 2, Watermark: now - 60_000*schemas.Millis(rapid.IntRange(0, 1).Draw(t, "stale"))}
		switch rapid.IntRange(0, 4).Draw(t, "progress"); {
		case intact:
		case p == 0:
			progress.Rebuilding = true
		case p == 1:
			continue
		}
		d.progress[p] = progress
	}
	for id := range schemas.UserID(users) {
		id++
		if intact || rapid.Bool().Draw(t, "in Redis") {
			e := redisview.Entry{Current: drawCurrent(t, id), Epoch: 2, Found: true}
			if intact {
				e.Since = now
				if e.Visibility == schemas.Nobody {
					e.Hidden = 1
				}
			} else {
				e.Epoch = rapid.Int64Range(1, 3).Draw(t, "epoch")
			}
			d.entries[id] = e
		}
		if rapid.Bool().Draw(t, "in the store") {
			d.durable[id] = drawCurrent(t, id)
		}
	}
	return d
}

func TestTheFastPathAnswersAsThePlainOne(t *testing.T) {
	t.Parallel()
	fastAnswers := 0
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t, 9)
		config := lastseen.Defaults()
		config.HiddenOffline = rapid.Bool().Draw(t, "hidden as offline")
		answers := func(plain bool, path string, s *Server) string {
			recorder, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
			if plain {
				s.handle("plain", s.batch).ServeHTTP(recorder, request)
			} else {
				s.fastBatch("fast", func(ctx context.Context, r *http.Request, h http.Header) ([]byte, error) {
					return s.batch(ctx, r, h)
				}).ServeHTTP(recorder, request)
			}
			if stale := recorder.Header().Get(staleHeader); stale != "" && len(d.progress) == 0 {
				recorder.Header().Set(staleHeader, "now")
			}
			return fmt.Sprint(recorder.Code, recorder.Header(), recorder.Body)
		}
		separators := rapid.SampledFrom([]string{",", "%2C", "%2c"})
		ids := rapid.SampledFrom([]string{"1", "2", "3", "4", "5", "6", "7", "8", "9"})
		switch rapid.IntRange(0, 7).Draw(t, "kind of ids") {
		case 0:
			ids = rapid.SampledFrom([]string{"1", "", "0", "-1", "x", "+3", "%31", "1;2", "9223372036854775808"})
		case 1:
			ids = rapid.SampledFrom([]string{"1", "2", "9223372036854775807", "01", "1234567890123456789"})
		}
		query := ""
		for i, n := 0, rapid.IntRange(1, 12).Draw(t, "ids"); i < n; i++ {
			if i > 0 {
				query += separators.Draw(t, "separator")
			}
			query += ids.Draw(t, "id")
		}
		path := "/presence/batch?user_ids=" + query + rapid.SampledFrom([]string{"", "", "", "&user_ids=3,1", "&user_id=2", "&x=1"}).Draw(t, "more")
		if _, err := url.Parse(path); err != nil || strings.Contains(path, ";") && strings.Contains(path, "%3") {
			t.Skip()
		}
		viewer := rapid.SampledFrom([]Viewer{{}, {}, {User: 2}, {Admin: true}}).Draw(t, "viewer")
		access := refusing(rapid.SampledFrom([]int64{-1, -1, -1, 0, 2}).Draw(t, "access"))
		var servers [2]*Server
		for i := range servers {
			metrics := lastseen.NewMetrics(prometheus.NewRegistry())
			reader := NewReader(d, d, 3, config, metrics)
			for p := range reader.watermarks {
				reader.watermarks[p].Store(1_000) // else stale_since may be now
			}
			servers[i] = NewServer(reader, slog.New(slog.DiscardHandler))
			if access >= 0 {
				servers[i].SetAccess(access)
			}
			servers[i].SetViewer(func(*http.Request) Viewer { return viewer })
			servers[i].SetCharge(func(_ *http.Request, ids int) (time.Duration, int, error) {
				if ids == 7 {
					return time.Second, 0, nil
				}
				return 0, 0, nil
			})
		}
		fast, plain := answers(false, path, servers[0]), answers(true, path, servers[1])
		if fast != plain {
			t.Fatalf("%s is answered with\n%s\nand plainly with\n%s", path, fast, plain)
		}
		var b scratch
		if sent := []byte(strings.TrimPrefix(path, "/presence/batch?")); b.parse(sent) {
			progress, _ := servers[0].reader.view.ReadBriefs(nil, b.ids, b.briefs)
			if _, settled := servers[0].reader.appendStates(&b, sent, viewer, progress); settled {
				fastAnswers++
			}
		}
	})
	if !testing.Short() && fastAnswers < 10 { // with -short rapid draws a fifth
		t.Errorf("only %d of the draws took the fast path to its end", fastAnswers)
	}
}

func TestABatchRedisSettlesAllocatesNothingForAnId(t *testing.T) {
	d := &drawn{entries: map[schemas.UserID]redisview.Entry{}, progress: redisview.ProgressMap{}}
	now := schemas.MillisOf(time.Now())
	for p := range int32(3) {
		d.progress[p] = redisview.Progress{Epoch: 1, Watermark: now + 3_600_000}
	}
	path := "/presence/batch?user_ids=1000"
	for id := schemas.UserID(1000); id < 2000; id++ {
		d.entries[id] = redisview.Entry{Found: true, Epoch: 1, Current: schemas.Current{User: id, State: schemas.Online, Since: 1, Version: 1}}
		path += "," + id.String()
	}
	path = strings.Replace(path, "1000,1000", "1000", 1)
	server := NewServer(NewReader(d, d, 3, lastseen.Defaults(), lastseen.NewMetrics(prometheus.NewRegistry())), slog.New(slog.DiscardHandler))
	request, w := httptest.NewRequest(http.MethodGet, path, nil), &nowhere{header: http.Header{}}
	// Not of the pool, which drops some of what it is given when the race detector runs.
	var b scratch
	each := testing.AllocsPerRun(100, func() {
		b.query = append(b.query[:0], request.URL.RawQuery...)
		if !b.parse(b.query) || server.fast(w, request, &b, func(time.Time) {}) != nil {
			t.Error("the batch does not take the fast path")
		}
	})
	if each > 20 || w.bytes < 16_000 {
		t.Errorf("a batch of 1,000 ids makes %.0f allocations and answers %d bytes", each, w.bytes)
	}
}

// nowhere is a response that is thrown away.
type nowhere struct {
	header http.Header
	bytes  int
}

func (n *nowhere) Header() http.Header { return n.header }
func (n *nowhere) WriteHeader(int)     {}
func (n *nowhere) Write(p []byte) (int, error) {
	n.bytes = len(p)
	return len(p), nil
}
