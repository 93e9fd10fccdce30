package query_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/stillhere/stillhere/internal/cursor"
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const partitions = 3

// world is the doors with the stores behind them.
type world struct {
	*http.ServeMux
	view     *redisview.View
	durable  *sqlitestore.Store
	reader   *query.Reader
	server   *query.Server
	progress [partitions]redisview.Progress
	written  int64
	// hiddenOffline is Config.HiddenOffline of the next serve.
	hiddenOffline bool
}

func newWorld(tb testing.TB, server *redistest.Server) *world {
	tb.Helper()
	view, err := redisview.Open(redisview.Options{Addrs: []string{server.Addr}, Prefix: server.Prefix}, time.Hour)
	must.Do(tb, err)
	tb.Cleanup(func() { _ = view.Close() })
	config := sqlitestore.Defaults()
	config.Path = filepath.Join(tb.TempDir(), "stillhere.db")
	durable := must.Get(sqlitestore.Open(tb.Context(), config))(tb)
	tb.Cleanup(func() { _ = durable.Close() })
	w := &world{view: view, durable: durable, written: store.Unknown}
	w.serve(view, durable)
	return w
}

// serve mounts the doors on these stores.
func (w *world) serve(view query.View, durable store.Reader) {
	config := lastseen.Defaults()
	config.RedisTimeout, config.ReadTimeout = 10*time.Second, 20*time.Second // a busy machine must not change who answers
	config.HiddenOffline = w.hiddenOffline
	w.reader = query.NewReader(view, durable, partitions, config, lastseen.NewMetrics(prometheus.NewRegistry()))
	w.ServeMux = http.NewServeMux()
	w.server = query.NewServer(w.reader, slog.New(slog.DiscardHandler))
	w.server.SetKeys(cursor.NewKeys(w.view.KeepCursorKey))
	w.server.Routes(w.ServeMux)
}

// durably writes changes to the durable store only.
func (w *world) durably(tb testing.TB, log ...*schemas.Transition) {
	tb.Helper()
	next := max(w.written, 0) + int64(len(log))
	must.Do(tb, w.durable.Append(tb.Context(), store.Batch{Expected: w.written, Next: next, Changes: log}))
	w.written = next
}

// happen writes changes to both stores.
func (w *world) happen(tb testing.TB, log ...*schemas.Transition) {
	tb.Helper()
	w.durably(tb, log...)
	w.inRedis(tb, log...)
}

// inRedis writes changes to Redis only.
func (w *world) inRedis(tb testing.TB, log ...*schemas.Transition) {
	tb.Helper()
	must.Get(w.view.Write(tb.Context(), 1, store.Fold(log)))(tb)
}

// upTo says that Redis has everything up to an instant.
func (w *world) upTo(tb testing.TB, watermark schemas.Millis) {
	tb.Helper()
	for p := range w.progress {
		progress := redisview.Progress{Epoch: 1, Watermark: watermark, Next: 0}
		moved := must.Get(w.view.Move(tb.Context(), int32(p), w.progress[p], progress))(tb)
		if moved != progress {
			tb.Fatalf("progress %+v", moved)
		}
		w.progress[p] = progress
	}
}

// ask is the answer to a request, whose headers are pairs.
func (w *world) ask(tb testing.TB, method, path, body string, header ...string) *httptest.ResponseRecorder {
	tb.Helper()
	r := httptest.NewRequestWithContext(tb.Context(), method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	recorder := httptest.NewRecorder()
	w.ServeHTTP(recorder, r)
	return recorder
}

// get is the status and body of an answer.
func (w *world) get(tb testing.TB, path string) (int, string) {
	tb.Helper()
	recorder := w.ask(tb, http.MethodGet, path, "")
	body := must.Get(io.ReadAll(recorder.Body))(tb)
	if !json.Valid(body) {
		tb.Fatalf("%s is answered with %q, which is not JSON", path, body)
	}
	return recorder.Code, string(body)
}

func (w *world) want(tb testing.TB, path, want string) {
	tb.Helper()
	if status, body := w.get(tb, path); status != http.StatusOK || body != want+"\n" {
		tb.Errorf("%s is answered with %d %s, want %s", path, status, body, want)
	}
}

// day is an instant without meaning.
const day schemas.Millis = 1795168800123 // 2026-11-20T10:00:00.123Z

func arrives(user schemas.UserID, version schemas.Version, at schemas.Millis) *schemas.Transition {
	return &schemas.Transition{User: user, From: schemas.Offline, To: schemas.Online, At: at, LastSeen: at - 1, LastActive: at - 2,
		Cause: schemas.FirstBeat, Device: 7, Kinds: schemas.SetOfKinds(schemas.Mobile).As(schemas.Online), Visibility: schemas.Everyone,
		Version: version, Policy: "p-1"}
}

func leaves(user schemas.UserID, version schemas.Version, at schemas.Millis) *schemas.Transition {
	t := arrives(user, version, at)
	t.From, t.To, t.Cause, t.Kinds, t.Device = schemas.Online, schemas.Offline, schemas.Silent, 0, 0
	return t
}

func hides(user schemas.UserID, version schemas.Version, at schemas.Millis) *schemas.Transition {
	t := arrives(user, version, at)
	t.From, t.Cause, t.Visibility = schemas.Online, schemas.VisibilityChange, schemas.Nobody
	return t
}

// erases is the erasure of a user.
func erases(user schemas.UserID, version schemas.Version, at, until schemas.Millis) *schemas.Transition {
	return &schemas.Transition{User: user, From: schemas.Online, To: schemas.Offline, At: at, Cause: schemas.Erased,
		Visibility: schemas.Everyone, Version: version, ErasedUntil: until}
}

// hidden is t of a hidden user.
func hidden(t *schemas.Transition) *schemas.Transition {
	t.Visibility = schemas.Nobody
	return t
}

var errAway = errors.New("away")

// away is a store that does not answer.
type away struct{}

func (away) Users(context.Context, []schemas.UserID) (map[schemas.UserID]schemas.Current, error) {
	return nil, errAway
}
func (away) History(context.Context, store.HistoryQuery) (store.Page, error) {
	return store.Page{}, errAway
}

func (away) ReadInto(context.Context, []schemas.UserID, []redisview.Entry) (redisview.ProgressMap, error) {
	return nil, errAway
}
func (away) Unsure(context.Context, []schemas.UserID) ([]redisview.Unsure, error) {
	return nil, errAway
}
func (away) Seen(context.Context, []schemas.UserID) ([]redisview.Seen, error)    { return nil, errAway }
func (away) Counts(context.Context) (map[int32]redisview.PartitionCounts, error) { return nil, errAway }

func (away) CountsOfTenant(context.Context, string, int32) (map[int32]redisview.PartitionCounts, error) {
	return nil, errAway
}

func (away) Names(context.Context, []schemas.UserID) (map[schemas.UserID]schemas.UserName, error) {
	return nil, errAway
}

func (away) DeniedBy(context.Context, schemas.UserID, schemas.UserID, int) ([]schemas.Denial, schemas.Version, error) {
	return nil, 0, errAway
}

func (away) Denying(context.Context, schemas.UserID, []schemas.UserID) (map[schemas.UserID]shown.Denying, error) {
	return nil, errAway
}

func (away) Missed(context.Context, store.MissedQuery) (store.Missed, error) {
	return store.Missed{}, errAway
}

// awayView is a Redis that does not answer.
type awayView struct{ away }

func (awayView) Denying(context.Context, schemas.UserID, []schemas.UserID, []schemas.Version) ([]shown.Denying, error) {
	return nil, errAway
}

func (awayView) Denied(context.Context, schemas.UserID, schemas.Version) (shown.Denied, error) {
	return shown.Denied{}, errAway
}
