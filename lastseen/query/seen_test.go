package query_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// hear writes that device 7 of a user was heard at an instant.
func (w *world) hear(tb testing.TB, user schemas.UserID, version schemas.Version, at schemas.Millis) {
	tb.Helper()
	_, err := w.view.WriteSeen(tb.Context(), []redisview.Seen{{User: user, At: at + 10, Version: version, Interval: 60_000,
		Devices: []redisview.Device{{Since: at, SeenDevice: schemas.SeenDevice{Device: 7, Kind: schemas.Mobile, State: schemas.Online, At: at}}}}})
	must.Do(tb, err)
}

// seenAnswer is what the tests here look at.
type seenAnswer struct {
	State      *string         `json:"state"`
	LastSeen   schemas.Millis  `json:"last_seen_at"`
	Coarseness *int64          `json:"last_seen_coarseness_ms"`
	Devices    *[]deviceOfUser `json:"device_list"`
	Error      struct{ Code, Field string }
}

type deviceOfUser struct {
	ID       uint32         `json:"device_id"`
	Kind     string         `json:"device_kind"`
	State    string         `json:"state"`
	Since    schemas.Millis `json:"since"`
	LastSeen schemas.Millis `json:"last_seen_at"`
}

func (w *world) seen(tb testing.TB, path string) (int, seenAnswer) {
	tb.Helper()
	status, body := w.get(tb, path)
	var a seenAnswer
	must.Do(tb, json.Unmarshal([]byte(body), &a))
	return status, a
}

func TestLastSeenOfAPresentUserIsTheNewestHeartbeatAndSaysHowCoarseItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	now := schemas.MillisOf(time.Now())
	w.happen(t, arrives(1, 10, now-3_600_000))
	w.upTo(t, now)
	if _, a := w.seen(t, "/presence/1"); a.LastSeen != now-3_600_001 || a.Coarseness != nil {
		t.Errorf("without a row: %+v", a)
	}
	w.hear(t, 1, 20, now-30_000)
	if _, a := w.seen(t, "/presence/1"); a.LastSeen != now-30_000 || a.Coarseness == nil || *a.Coarseness != 60_000 {
		t.Errorf("with a row: %+v", a)
	}
	var detailed struct{ Users []seenAnswer }
	body := w.post(t, `{"user_ids":["2","1"],"detail":true}`).Body.String()
	must.Do(t, json.Unmarshal([]byte(body), &detailed))
	if a := detailed.Users[1]; a.LastSeen != now-30_000 || a.Coarseness == nil {
		t.Errorf("in a batch with detail: %s", body)
	}
	w.hear(t, 1, 30, now-20_000)
	w.happen(t, leaves(1, 40, now-15_000))
	if _, a := w.seen(t, "/presence/1"); a.LastSeen != now-15_001 || a.Coarseness != nil {
		t.Errorf("after the user left: %+v", a)
	}
}

func TestARowThatIsOlderThanItsIntervalSaysHowOldItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	now := schemas.MillisOf(time.Now())
	w.happen(t, arrives(1, 10, now-3_600_000))
	w.upTo(t, now)
	w.hear(t, 1, 20, now-300_010)
	if _, a := w.seen(t, "/presence/1"); a.Coarseness == nil || *a.Coarseness < 300_000 || *a.Coarseness > 360_000 {
		t.Errorf("%+v", a)
	}
}

func TestOfAHiddenUserNoHeartbeatAndNoDeviceShows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	now := schemas.MillisOf(time.Now())
	w.happen(t, arrives(1, 10, now-3_600_000), hides(1, 20, now-60_000))
	w.upTo(t, now)
	w.hear(t, 1, 19, now-70_000) // not written
	w.hear(t, 1, 21, now-1000)   // no detector writes it
	if _, a := w.seen(t, "/presence/1?devices=true"); a.State != nil || a.LastSeen != 0 || a.Coarseness != nil || a.Devices != nil {
		t.Errorf("%+v", a)
	}
}

func TestDevicesAreListedWithSinceAndLastHeartbeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	now := schemas.MillisOf(time.Now())
	w.happen(t, arrives(1, 10, now-3_600_000), leaves(2, 10, now-60_000), arrives(3, 10, now))
	w.upTo(t, now)
	w.hear(t, 1, 20, now-90_000)
	w.hear(t, 1, 21, now-30_000)
	if _, a := w.seen(t, "/presence/1?devices=true"); a.Devices == nil || len(*a.Devices) != 1 ||
		(*a.Devices)[0] != (deviceOfUser{7, "mobile", "online", now - 90_000, now - 30_000}) {
		t.Errorf("%+v", a.Devices)
	}
	for user, want := range map[string]string{"2": "[]", "3": "null", "4": "[]"} {
		if _, body := w.get(t, "/presence/"+user+"?devices=true"); !strings.Contains(body, `"device_list":`+want) {
			t.Errorf("user %s: %s, want %s", user, body, want)
		}
	}
	w.happen(t, leaves(1, 30, now-20_000), arrives(1, 40, now-10_000))
	if _, body := w.get(t, "/presence/1?devices=true"); !strings.Contains(body, `"device_list":null`) {
		t.Errorf("the devices of an earlier stay are listed: %s", body)
	}
	w.hear(t, 1, 41, now-5000)
	if _, a := w.seen(t, "/presence/1?devices=true"); a.Devices == nil || len(*a.Devices) != 1 || (*a.Devices)[0].Since < now-10_000 {
		t.Errorf("after a row of this stay: %+v", a.Devices)
	}
	if _, body := w.get(t, "/presence/1?devices=false"); strings.Contains(body, "device_list") {
		t.Error(body)
	}
	if status, a := w.seen(t, "/presence/1?devices=yes"); status != http.StatusBadRequest || a.Error.Field != "devices" {
		t.Errorf("%d %+v", status, a)
	}
}

// everyone may see everyone.
type everyone struct{}

func (everyone) Refused(*http.Request, []schemas.UserID) ([]schemas.UserID, error) { return nil, nil }
func (everyone) MayReadHistory(*http.Request, schemas.UserID) (bool, error)        { return true, nil }

func TestOnlyTheUserAndAdministratorsReadDevices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	w.happen(t, arrives(1, 10, day))
	w.upTo(t, day)
	for _, c := range []struct {
		viewer query.Viewer
		status int
	}{{query.Viewer{User: 1}, 200}, {query.Viewer{Admin: true}, 200}, {query.Viewer{User: 2}, 403}, {query.Viewer{}, 403}} {
		w.ServeMux = http.NewServeMux()
		s := query.NewServer(w.reader, slog.New(slog.DiscardHandler))
		s.SetAccess(everyone{})
		s.SetViewer(func(*http.Request) query.Viewer { return c.viewer })
		s.Routes(w.ServeMux)
		status, a := w.seen(t, "/presence/1?devices=true")
		if status != c.status || status == 403 && (a.Error.Code != "not_allowed" || a.Error.Field != "devices") {
			t.Errorf("%+v: %d %+v", c.viewer, status, a.Error)
		}
	}
}

func TestCountsOfAllPartitionsAreAddedUpAndMissingOrOldOnesAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	now := schemas.MillisOf(time.Now())
	type counts struct {
		Online, Away int64
		Devices      map[string]int64
		AsOf         schemas.Millis `json:"as_of"`
		Stale        schemas.Millis `json:"stale_since"`
		Missing      []int32        `json:"missing_partitions"`
	}
	read := func() (c counts) {
		status, body := w.get(t, "/presence/count")
		if status != http.StatusOK {
			t.Fatal(status, body)
		}
		must.Do(t, json.Unmarshal([]byte(body), &c))
		return c
	}
	if c := read(); len(c.Missing) != partitions || c.Stale == 0 {
		t.Errorf("before any count: %+v", c)
	}
	write := func(p int32, at schemas.Millis) {
		must.Do(t, w.view.WriteCounts(t.Context(), p, redisview.PartitionCounts{At: at, Counts: schemas.Counts{Online: 10, Away: 1, ByKind: [5]int64{9, 0, 2}}}))
	}
	write(0, now)
	write(2, now-2000)
	if c := read(); c.Online != 20 || c.Away != 2 || c.Devices["mobile"] != 18 || c.Devices["web"] != 4 || c.Devices["bot"] != 0 ||
		c.AsOf != now-2000 || c.Stale != 0 || len(c.Missing) != 1 || c.Missing[0] != 1 {
		t.Errorf("without partition 1: %+v", c)
	}
	write(1, now-60_000) // its detector is away
	if c := read(); c.Online != 30 || c.Stale != now-60_000 || len(c.Missing) != 0 {
		t.Errorf("with an old partition 1: %+v", c)
	}
	if status, body := w.get(t, "/presence/count?state=online"); status != http.StatusBadRequest {
		t.Error(status, body)
	}
}
