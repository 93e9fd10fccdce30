package load

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestUsersOfSeveralTenantsHaveTheSameNames(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	beats, watched := map[schemas.Name]bool{}, ""
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/presence/stream" {
			socket, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			_, subscribe, _ := socket.Read(r.Context())
			mu.Lock()
			watched = r.URL.RawQuery + " " + string(subscribe)
			mu.Unlock()
			_ = socket.CloseNow()
			return
		}
		var request struct {
			Beats []struct {
				User   string `json:"user_id"`
				Tenant string `json:"tenant"`
				Device string `json:"device_id"`
			} `json:"beats"`
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Errorf("a request that is not of text mode: %v", err)
		}
		w.WriteHeader(http.StatusAccepted)
		mu.Lock()
		defer mu.Unlock()
		for _, b := range request.Beats {
			beats[schemas.Name{Tenant: b.Tenant, Text: b.User}] = true
			if b.Device != "phone" && b.Device != "laptop" {
				t.Errorf("a device is called %q", b.Device)
			}
		}
		if len(beats) == 4 && watched != "" {
			cancel()
		}
	}))
	defer server.Close()
	settings := Defaults()
	settings.Users, settings.First, settings.Text, settings.Tenants = 4, 7, true, []string{"acme", ""}
	settings.Interval, settings.Pace = 0, 100
	must.Do(t, Run(ctx, settings, Target{URL: server.URL}, slog.New(slog.DiscardHandler)))
	for _, want := range []schemas.Name{{Tenant: "acme", Text: "user-7"}, {Text: "user-7"}, {Tenant: "acme", Text: "user-8"}, {Text: "user-8"}} {
		if !beats[want] {
			t.Errorf("no beat of user %s in %v", want, beats)
		}
	}
	if len(beats) != 4 || !strings.HasPrefix(watched, "tenant=acme ") || !strings.Contains(watched, `"user-7"`) {
		t.Errorf("beats of %v, watched %s", beats, watched)
	}
}

func TestTenantsAreOfTextModeAlone(t *testing.T) {
	t.Parallel()
	settings := Defaults()
	settings.Tenants = []string{"acme"}
	if err := settings.Validate(); err == nil || !strings.Contains(err.Error(), "--ids text") {
		t.Errorf("error %v", err)
	}
	settings.Text, settings.Tenants = true, []string{"a/b"}
	if err := settings.Validate(); err == nil || !strings.Contains(err.Error(), "at most 64") {
		t.Errorf("error %v", err)
	}
}
