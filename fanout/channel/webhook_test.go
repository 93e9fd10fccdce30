package channel

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestAWebhookIsASignedCloudEventThatKeepsItsKey(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef0123456789abcdef")
	answers := []int{http.StatusServiceUnavailable, http.StatusNoContent}
	keys := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := schemas.VerifyNotice(secret, r.Header.Get(schemas.SignatureHeader), body, time.Now(), time.Minute); err != nil {
			t.Error(err)
		}
		for name, want := range map[string]string{"Ce-Specversion": "1.0", "Ce-Type": schemas.NoticeEvent, "Ce-Source": "/here", "Ce-Subject": "7",
			"Ce-Time": "2025-11-21T04:40:00.000Z", "Content-Type": "application/json"} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if id := r.Header.Get("Ce-Id"); id == "" || id != r.Header.Get(schemas.IdempotencyHeader) {
			t.Errorf("id %q, key %q", id, r.Header.Get(schemas.IdempotencyHeader))
		}
		var m schemas.NoticeMessage
		if err := json.Unmarshal(body, &m); err != nil || *m.UserID != "7" || m.State != "online" || !slices.Equal(m.Recipients, []string{"1", "2"}) {
			t.Errorf("%s: %v", body, err)
		}
		keys[r.Header.Get(schemas.IdempotencyHeader)]++
		w.WriteHeader(answers[0])
		answers = answers[1:]
	}))
	defer server.Close()
	hook, err := NewWebhook(WebhookConfig{Private: true, URL: server.URL, Source: "/here", Secret: secret, Client: server.Client()}, slog.New(slog.DiscardHandler))
	must.Do(t, err)
	deliver(t, hook, item(1, 7, 10, 1, 2))
	if len(keys) != 1 || len(answers) != 0 {
		t.Errorf("keys %v, answers left %v", keys, answers)
	}
}

func TestATransitionIsASignedCloudEventOfItsOwnTypeAndAHideSaysNothingElse(t *testing.T) {
	t.Parallel()
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := schemas.VerifyNotice([]byte(shared), r.Header.Get(schemas.SignatureHeader), body, time.Now(), time.Minute); err != nil {
			t.Error(err)
		}
		if r.Header.Get("Ce-Type") != schemas.TransitionEvent || r.Header.Get("Ce-Id") != "x" {
			t.Errorf("headers %v", r.Header)
		}
		bodies = append(bodies, string(body))
	}))
	defer server.Close()
	hook, err := NewWebhook(WebhookConfig{Private: true, URL: server.URL, Source: "/here", Secret: []byte(shared), Client: server.Client()}, slog.New(slog.DiscardHandler))
	must.Do(t, err)
	comes, hides := notice(), notice()
	hidden := *comes.Transition
	hidden.Cause, hidden.Visibility, hidden.LastSeen = schemas.VisibilityChange, schemas.Nobody, hidden.At
	hides.Transition = &hidden
	for _, n := range []schemas.Notice{comes, hides} {
		must.Do(t, hook.Deliver(t.Context(), n))
	}
	want := []string{
		`{"id":"x","user_id":"7","state":"online","previous_state":"offline","cause":"first_beat","visibility":"everyone",` +
			`"at":"2025-11-21T04:40:00.000Z","last_seen_at":null,"last_active_at":null,"devices":["mobile"],"kinds":{"mobile":"online"},"version":"10"}`,
		`{"id":"x","user_id":"7","state":null,"previous_state":null,"cause":"visibility","visibility":"nobody",` +
			`"at":"2025-11-21T04:40:00.000Z","last_seen_at":null,"last_active_at":null,"devices":null,"kinds":null,"version":"10"}`,
	}
	if !slices.Equal(bodies, want) {
		t.Errorf("posted\n%s\nwant\n%s", bodies, want)
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
		hook, err := NewWebhook(WebhookConfig{Private: true, URL: server.URL, Source: "/here"}, slog.New(slog.DiscardHandler))
		must.Do(t, err)
		err = hook.Deliver(t.Context(), notice())
		_, later := delivery.WaitOf(err)
		if code < 300 != (err == nil) || delivery.IsPermanent(err) != final || later != (err != nil && !final) {
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
		if _, err := NewWebhook(WebhookConfig{Private: true, URL: c[0], Source: c[1]}, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%q is taken", c)
		}
	}
}

func TestTheSubjectOfANamedUserIsTheEncodedNameAndNeverAnID(t *testing.T) {
	t.Parallel()
	var subjects, tenants []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		subjects = append(subjects, r.Header.Get("Ce-Subject"))
		tenants = append(tenants, r.Header.Get("Ce-Tenant"))
	}))
	defer server.Close()
	hook, err := NewWebhook(WebhookConfig{Private: true, URL: server.URL, Source: "/here", Secret: []byte(shared), Client: server.Client()}, slog.New(slog.DiscardHandler))
	must.Do(t, err)
	for _, name := range []schemas.Name{{Tenant: "acme", Text: "a \"b\"%\r\né"}, {Text: "@a:b.c"}, {}} {
		n := notice("1")
		n.User = name
		must.Do(t, hook.Deliver(t.Context(), n))
	}
	if want := []string{"a%20%22b%22%25%0D%0A%C3%A9", "@a:b.c", ""}; !slices.Equal(subjects, want) || !slices.Equal(tenants, []string{"acme", "", ""}) {
		t.Errorf("subjects %q, want %q; tenants %q", subjects, want, tenants)
	}
}
