package load

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/schemas"
)

// hours plays a world for some time and returns everything that was sent.
func hours(settings Settings, span time.Duration) (w *World, sent []Request, at []time.Duration) {
	w = NewWorld(settings, time.UnixMilli(1_763_700_000_000))
	for now := time.Duration(0); now < span; now += 250 * time.Millisecond {
		for _, r := range w.Step(now) {
			sent, at = append(sent, r), append(at, now)
		}
	}
	return w, sent, at
}

func TestEverybodyWhoIsOnlineBeatsAtLeastOnceAnInterval(t *testing.T) {
	t.Parallel()
	settings := Defaults()
	settings.Users, settings.Crashes = 200, 0
	_, sent, at := hours(settings, time.Hour)
	type device struct {
		user int64
		id   uint32
	}
	last := map[device]time.Duration{}
	byes, silent := 0, 0
	for i, r := range sent {
		if len(r.Beats) > maxBeats {
			t.Fatalf("%d beats in one request", len(r.Beats))
		}
		for _, b := range r.Beats {
			if b.User < settings.First || int(b.User) >= int(settings.First)+settings.Users || b.Idle < 0 || b.Kind == "" {
				t.Fatalf("%+v", b)
			}
			d := device{int64(b.User), b.Device}
			if before, here := last[d]; here && at[i]-before > settings.Interval+time.Second {
				silent++ // came back after leaving without a bye
			}
			if last[d] = at[i]; b.Bye {
				byes++
				delete(last, d)
			}
		}
	}
	if byes < 100 || silent < 50 {
		t.Errorf("in an hour of 200 people: %d byes and %d silent departures", byes, silent)
	}
}

func TestTheSameSeedIsTheSameLoad(t *testing.T) {
	t.Parallel()
	settings := Defaults()
	settings.Users = 50
	_, one, _ := hours(settings, 20*time.Minute)
	_, two, _ := hours(settings, 20*time.Minute)
	if !reflect.DeepEqual(one, two) {
		t.Error("two worlds of one seed differ")
	}
}

func TestAGatewayThatCrashesIsSilentAndComesBackNewer(t *testing.T) {
	t.Parallel()
	settings := Defaults()
	settings.Users, settings.Crashes = 100, 5*time.Minute
	_, sent, at := hours(settings, 2*time.Hour)
	type seen struct {
		at    time.Duration
		epoch int64
	}
	last, deaths := map[string]seen{}, 0
	for i, r := range sent {
		before, known := last[r.Gateway]
		switch {
		case known && r.Epoch < before.epoch:
			t.Fatalf("%s went back from epoch %d to %d", r.Gateway, before.epoch, r.Epoch)
		case known && r.Epoch > before.epoch:
			deaths++
			if quiet := at[i] - before.at; quiet < 11*time.Second {
				t.Errorf("%s came back after only %s", r.Gateway, quiet)
			}
		case known && at[i]-before.at > moment+time.Second:
			t.Errorf("%s said nothing for %s although it lived", r.Gateway, at[i]-before.at)
		}
		last[r.Gateway] = seen{at[i], r.Epoch}
	}
	if deaths < 5 {
		t.Errorf("%d gateways died in two hours", deaths)
	}
}

func TestABeatThatFailedIsFollowedSoon(t *testing.T) {
	t.Parallel()
	settings := Defaults()
	settings.Users, settings.Gateways, settings.Crashes = 1, 1, 0
	w := NewWorld(settings, time.Now())
	w.people[0] = person{devices: 1, mood: working, until: time.Hour}
	beats := 0
	var failed time.Duration
	for now := time.Duration(0); now < 5*time.Minute; now += 250 * time.Millisecond {
		for _, r := range w.Step(now) {
			if len(r.Beats) == 0 {
				continue
			}
			if beats > 0 && now-failed > 2250*time.Millisecond {
				t.Errorf("after a failure the next beat came after %s", now-failed)
			}
			beats, failed = beats+1, now
			w.Failed(r, now)
		}
	}
	if beats < 100 {
		t.Errorf("%d beats in five minutes of failures", beats)
	}
}

func TestBeatsArePostedAsIngestTakesThem(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	users := map[string]bool{}
	enough := make(chan struct{})
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Gateway string `json:"gateway_id"`
			Epoch   string `json:"gateway_epoch"`
			Beats   []struct {
				User json.Number `json:"user_id"`
			} `json:"beats"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Epoch == "" || !strings.HasPrefix(body.Gateway, "load-") {
			t.Errorf("%+v: %v", body, err)
		}
		if r.URL.Path != "/presence/heartbeats" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s with %q", r.URL.Path, r.Header.Get("Authorization"))
		}
		mu.Lock()
		defer mu.Unlock()
		for _, b := range body.Beats {
			users[string(b.User)] = true
		}
		if len(users) >= 15 {
			once.Do(func() { close(enough) })
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	settings := Defaults()
	settings.Users, settings.Interval = 30, 300*time.Millisecond
	go func() {
		ended <- Run(ctx, settings, Target{URL: server.URL + "/", Token: "secret"}, slog.New(slog.DiscardHandler))
	}()
	select {
	case <-enough:
	case <-time.After(30 * time.Second):
		t.Error("15 of 30 people have not come in half a minute")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestDevicesBeatAsTheServersHelloSays(t *testing.T) {
	t.Parallel()
	often := make(chan struct{})
	var once sync.Once
	var beats sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/presence/stream" {
			conn, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			_ = conn.Write(r.Context(), websocket.MessageText, schemas.HelloMessage(schemas.ScheduleOf(100*time.Millisecond, 0), 500))
			for err == nil {
				_, _, err = conn.Read(r.Context())
			}
			return
		}
		var body Request
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		for _, b := range body.Beats {
			n, _ := beats.LoadOrStore(b.User, new(atomic.Int32))
			if n.(*atomic.Int32).Add(1) == 10 { // at the default interval it takes two minutes
				once.Do(func() { close(often) })
			}
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	settings := Defaults()
	settings.Users, settings.Interval, settings.Crashes = 100, 0, 0
	go func() { ended <- Run(ctx, settings, Target{URL: server.URL}, slog.New(slog.DiscardHandler)) }()
	select {
	case <-often:
	case <-time.After(30 * time.Second):
		t.Error("in half a minute nobody has sent 10 beats")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestSettingsThatMakeNoSenseAreNamedTogether(t *testing.T) {
	t.Parallel()
	err := Run(t.Context(), Settings{Crashes: -1, Interval: -1}, Target{URL: "nowhere"}, slog.New(slog.DiscardHandler))
	for _, field := range []string{"users", "first user", "gateways", "interval", "pace", "crashes", "url"} {
		if err == nil || !strings.Contains(err.Error(), field+":") {
			t.Errorf("%s is not named in: %v", field, err)
		}
	}
}
