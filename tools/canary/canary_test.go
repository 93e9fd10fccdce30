package canary

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestAReplayFailsForWhatTheTopicLacksHasTwiceOrHasOtherwise(t *testing.T) {
	t.Parallel()
	on := schemas.Transition{From: schemas.Offline, To: schemas.Online, Version: 10}
	off := schemas.Transition{From: schemas.Online, To: schemas.Offline, Version: 20}
	shown := []change{{state: schemas.Online, version: 10}, {state: schemas.Online, version: 15}, {state: schemas.Offline, version: 20}}
	other := off
	other.To = schemas.Away
	unseen := schemas.Transition{From: schemas.Away, To: schemas.Online, Version: 5}
	ann := schemas.Name{Tenant: "acme", Text: "ann"}
	named, stranger := on, on
	named.Name, stranger.Name = ann, schemas.Name{Text: "ann"}
	for name, c := range map[string]struct {
		published []schemas.Transition
		want      reason
	}{
		"as shown":                 {[]schemas.Transition{on, off}, ""},
		"by name":                  {[]schemas.Transition{named, off}, ""},
		"one has another name":     {[]schemas.Transition{stranger, off}, wrong},
		"one is missing":           {[]schemas.Transition{on}, missing},
		"none is published":        {nil, missing},
		"one is doubled":           {[]schemas.Transition{on, on, off}, doubled},
		"another state":            {[]schemas.Transition{on, other}, wrong},
		"they are out of order":    {[]schemas.Transition{off, on}, wrong},
		"one does not continue it": {[]schemas.Transition{unseen, on, off}, wrong},
	} {
		var got reason
		if fault := compare(c.published, shown, ann); fault != nil {
			got = fault.reason
		}
		if got != c.want {
			t.Errorf("%s: %q, must be %q", name, got, c.want)
		}
	}
}

func TestAFailureIsCountedByWhatWasAnswered(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]reason{http.StatusAccepted: "", http.StatusForbidden: refused,
		http.StatusTooManyRequests: unavailable, http.StatusServiceUnavailable: unavailable} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		var got reason
		if err := send(t.Context(), client.HTTP{URL: server.URL}, User{ID: DefaultUser}, false); err != nil {
			got = failed(beat, err).reason
		}
		server.Close()
		if got != want {
			t.Errorf("%d is %q, must be %q", status, got, want)
		}
		if err := send(t.Context(), client.HTTP{URL: server.URL}, User{ID: DefaultUser}, false); failed(beat, err).reason != unreachable {
			t.Errorf("a closed server is %q, must be %q", failed(beat, err).reason, unreachable)
		}
	}
	over, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	if err := send(over, client.HTTP{URL: "http://127.0.0.1:1"}, User{ID: DefaultUser}, false); failed(beat, err).reason != timeout {
		t.Errorf("a deadline is %q, must be %q", failed(beat, err).reason, timeout)
	}
}

func TestBadSettingsAreRefusedByField(t *testing.T) {
	t.Parallel()
	good := Config{Ingest: client.HTTP{URL: "http://a"}, Reads: client.HTTP{URL: "http://a"}, User: User{ID: 1}, Silent: User{ID: 2},
		Interval: 10 * time.Second, Timeout: time.Second, Policy: schemas.DefaultPolicy}
	must.Do(t, good.Validate())
	for field, change := range map[string]func(*Config){
		"http.url":    func(c *Config) { c.Reads.URL = "ftp://a" },
		"user":        func(c *Config) { c.User = User{} },
		"silent_user": func(c *Config) { c.Silent = c.User },
		"interval":    func(c *Config) { c.Interval = time.Second },
		"timeout":     func(c *Config) { c.Timeout = time.Hour },
		"policy":      func(c *Config) { c.Policy = nil },
	} {
		bad := good
		change(&bad)
		_, err := New(bad)
		if fault := new(schemas.FieldError); !errors.As(err, &fault) || fault.Field != field {
			t.Errorf("%s: the error is %v", field, err)
		}
	}
}
