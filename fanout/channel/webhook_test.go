package channel

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAWebhookIsASignedCloudEventThatKeepsItsKey(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef0123456789abcdef")
	answers := []int{http.StatusServiceUnavailable, http.StatusNoContent}
	keys := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := Verify(secret, r.Header.Get(SignatureHeader), body, time.Now(), time.Minute); err != nil {
			t.Error(err)
		}
		for name, want := range map[string]string{"Ce-Specversion": "1.0", "Ce-Type": EventType, "Ce-Source": "/here", "Ce-Subject": "7",
			"Ce-Time": "2025-11-21T04:40:00.000Z", "Content-Type": "application/json"} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if id := r.Header.Get("Ce-Id"); id == "" || id != r.Header.Get(IdempotencyHeader) {
			t.Errorf("id %q, key %q", id, r.Header.Get(IdempotencyHeader))
		}
		var m Message
		if err := json.Unmarshal(body, &m); err != nil || m.UserID != 7 || m.State != "online" || !slices.Equal(m.Recipients, []string{"1", "2"}) {
			t.Errorf("%s: %v", body, err)
		}
		keys[r.Header.Get(IdempotencyHeader)]++
		w.WriteHeader(answers[0])
		answers = answers[1:]
	}))
	defer server.Close()
	hook, err := NewWebhook(WebhookConfig{URL: server.URL, Source: "/here", Secret: secret, Client: server.Client()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	config := Defaults()
	config.FirstWait = time.Millisecond
	c, l := consumer(t, config, hook)
	if err := apply(c, t.Context(), batch(item(1, 7, 10, 1, 2))); err != nil || len(l.reasons) != 0 || len(keys) != 1 || len(answers) != 0 {
		t.Errorf("%v, set aside %v, keys %v", err, l.reasons, keys)
	}
}

func TestAnAnswerSaysWhetherToTryAgain(t *testing.T) {
	t.Parallel()
	for code, final := range map[int]bool{200: false, 204: false, 301: true, 400: true, 401: true, 404: true, 410: true, 408: false, 429: false, 500: false, 503: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Location", "/")
			w.WriteHeader(code)
		}))
		hook, err := NewWebhook(WebhookConfig{URL: server.URL, Source: "/here"}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		i := item(1, 7, 10, 1)
		err = hook.Deliver(t.Context(), Notice{ID: "x", Transition: i.Delivery.Transition, Recipients: i.Delivery.Recipients})
		var refused *permanent
		var later *after
		if code < 300 != (err == nil) || errors.As(err, &refused) != final || errors.As(err, &later) != (err != nil && !final) {
			t.Errorf("%d: %v", code, err)
		}
		server.Close()
		hook.client.CloseIdleConnections()
	}
}

func TestTheReceiverSaysHowLongToWaitInSecondsOrByADate(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_763_700_000, 0)
	w := &Webhook{now: func() time.Time { return now }}
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "-3": 0, "7": 7 * time.Second, "soon": 0, "99999999999999999999": 0,
		now.Add(90 * time.Second).UTC().Format(http.TimeFormat): 90 * time.Second,
		now.Add(-time.Hour).UTC().Format(http.TimeFormat):       0,
		"9223372036854775807":                                   maxRetryAfter * time.Second,
	} {
		if got := w.retryAfter(value); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

func TestAWebhookThatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"", "/s"}, {"ftp://h/", "/s"}, {"http://", "/s"}, {"nonsense", "/s"}, {"http://h/", ""}, {"http://h/", "two words"}} {
		if _, err := NewWebhook(WebhookConfig{URL: c[0], Source: c[1]}, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%q is taken", c)
		}
	}
}

func TestASignatureFitsOneBodyOneSecretAndOneTime(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_763_700_000, 0)
	good := Sign([]byte("s"), now, []byte("body"))
	for name, err := range map[string]error{
		"another body":   Verify([]byte("s"), good, []byte("body2"), now, time.Minute),
		"another secret": Verify([]byte("z"), good, []byte("body"), now, time.Minute),
		"too late":       Verify([]byte("s"), good, []byte("body"), now.Add(2*time.Minute), time.Minute),
		"too early":      Verify([]byte("s"), good, []byte("body"), now.Add(-2*time.Minute), time.Minute),
		"another time":   Verify([]byte("s"), strings.Replace(good, "t=1", "t=2", 1), []byte("body"), now, time.Minute),
		"none":           Verify([]byte("s"), "", []byte("body"), now, time.Minute),
		"garbage":        Verify([]byte("s"), "t=1,v1=zz,,=", []byte("body"), now, time.Minute),
	} {
		if !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Verify([]byte("s"), good, []byte("body"), now, time.Minute); err != nil {
		t.Error(err)
	}
}
