package channel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/schemas"
)

// ofTenant is a delivery about a user of a tenant.
func ofTenant(tenant string, offset int64) delivery.Item {
	it := item(offset, schemas.UserID(offset), schemas.Version(offset), 1)
	it.Delivery.Transition.Name = schemas.Name{Tenant: tenant, Text: fmt.Sprint("user", offset)}
	it.Delivery.Names = []string{"ann"}
	it.Record.Time = schemas.MillisOf(time.Now())
	return it
}

func secretOf(tenant string) string { return strings.Repeat("secret of "+tenant+" ", 4) }

// receiving counts what came for tenants, each at a path of its own.
type receiving struct {
	*testing.T
	mu     sync.Mutex
	ids    map[string]map[string]bool // by tenant
	others int                        // tenants other than slow that have all
	all    chan struct{}              // closed when all others have all
	want   int
	slow   chan struct{} // closed when slow has all
}

// ServeHTTP fails the test if a tenant's delivery comes to another's URL or with another's signature.
func (r *receiving) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	tenant := strings.TrimPrefix(request.URL.Path, "/of/")
	body, err := io.ReadAll(request.Body)
	if err == nil {
		err = schemas.VerifyNotice([]byte(secretOf(tenant)), request.Header.Get(schemas.SignatureHeader), body, time.Now(), time.Minute)
	}
	if of := request.Header.Get("Ce-Tenant"); of != tenant || err != nil || !strings.Contains(string(body), fmt.Sprintf("%q", tenant)) {
		r.Errorf("%s got a delivery of %q: %v: %s", request.URL.Path, of, err, body)
	}
	if tenant == "slow" {
		select {
		case <-r.all:
		case <-request.Context().Done():
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids[tenant] == nil {
		r.ids[tenant] = map[string]bool{}
	}
	r.ids[tenant][request.Header.Get("Ce-Id")] = true
	if len(r.ids[tenant]) == r.want {
		if tenant == "slow" {
			close(r.slow)
		} else if r.others--; r.others == 0 {
			close(r.all)
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// Not parallel: its requests would take the time that other tests measure.
func TestAThousandTenantsGetTheirOwnWhileOneIsDeadAndOneSlow(t *testing.T) {
	const answering, rounds = 1_200, 12
	r := &receiving{T: t, ids: map[string]map[string]bool{}, others: answering, all: make(chan struct{}), slow: make(chan struct{}), want: rounds}
	server := httptest.NewServer(r)
	defer server.Close()
	dead := httptest.NewServer(nil)
	dead.Close()
	tenants := []TenantWebhook{{Tenant: "dead", URL: dead.URL, Secret: secretOf("dead")}}
	for i := range answering + 1 {
		tenant := fmt.Sprint("t", i)
		if i == answering {
			tenant = "slow"
		}
		tenants = append(tenants, TenantWebhook{Tenant: tenant, URL: server.URL + "/of/" + tenant, Secret: secretOf(tenant)})
	}
	registry := prometheus.NewRegistry()
	to := NewTenants(TenantsConfig{Source: "/here", Registry: registry}, slog.New(slog.DiscardHandler))
	if err := to.Use(tenants); err != nil {
		t.Fatal(err)
	}
	var log []delivery.Item
	for range rounds {
		for _, of := range tenants {
			log = append(log, ofTenant(of.Tenant, int64(len(log))+1))
		}
	}
	config := delivery.Defaults()
	config.FirstWait, config.MaxWait, config.Attempts, config.TenantQueue = time.Millisecond, 20*time.Millisecond, 3, 8
	config.Timeout = time.Hour // slow is answered when all others have been, however busy the machine is
	var mu sync.Mutex
	letters, buried := map[string]int{}, make(chan struct{})
	made, err := delivery.NewConsumer(config, to, nil, func(_ context.Context, rec *schemas.Record, why error) error {
		mu.Lock()
		defer mu.Unlock()
		tenant := log[rec.Offset-1].Delivery.Transition.Name.Tenant
		letters[tenant]++
		if tenant != "dead" {
			t.Errorf("a dead letter of tenant %s: %v", tenant, why)
		} else if letters[tenant] == rounds {
			close(buried)
		}
		return nil
	}, delivery.NewMetrics(registry), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	made.Route(to, func(_ context.Context, _ int32, from, end int64, each func(delivery.Item) error) error {
		for _, again := range log[from-1 : end-1] {
			if err := each(again); err != nil {
				return err
			}
		}
		return nil
	})
	if err := made.Apply(t.Context(), batch(log...)); err != nil {
		t.Fatal(err)
	}
	<-r.all // although slow answers nobody, and dead is not there
	<-r.slow
	<-buried
	if first, inHand := made.Finish(t.Context(), 3); inHand {
		t.Errorf("still in hand from %d", first)
	}
	if len(r.ids["slow"]) != rounds || letters["dead"] != rounds || len(letters) != 1 {
		t.Errorf("slow has %d deliveries, dead letters are %v; want %d", len(r.ids["slow"]), letters, rounds)
	}
	if to.open() != 1 {
		t.Errorf("%g circuits are open, want that of dead", to.open())
	}
	delivered := testutil.CollectAndCount(registry, "stillhere_channel_tenant_delivered_total")
	if delivered > 101 {
		t.Errorf("%d series of tenants", delivered)
	}
}

// answers is a receiver that answers with what it is told to.
type answers struct {
	status int
	posts  int
}

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	a.posts++
	if a.status == 0 {
		return nil, errors.New("nobody answers")
	}
	return &http.Response{StatusCode: a.status, Status: http.StatusText(a.status), Body: http.NoBody}, nil
}

func TestAReceiverThatFailsIsAskedOncePerPauseUntilItAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		receiver := &answers{}
		to := NewTenants(TenantsConfig{Source: "/here", Client: &http.Client{Transport: receiver}}, slog.New(slog.DiscardHandler))
		if err := to.Use([]TenantWebhook{{Tenant: "acme", URL: "http://acme.example/"}}); err != nil {
			t.Fatal(err)
		}
		n := schemas.Notice{ID: "x", Transition: ofTenant("acme", 1).Delivery.Transition, Recipients: []schemas.UserID{1}}
		for range 60 { // seconds
			for range 10 {
				if err := to.Deliver(t.Context(), n); err == nil || delivery.IsPermanent(err) {
					t.Fatal(err)
				} else if wait, ok := delivery.WaitOf(err); to.open() == 1 && receiver.posts > breaksAfter && ok && wait > maxPause {
					t.Fatalf("the next try is in %s", wait)
				}
			}
			time.Sleep(time.Second) // virtual
		}
		if receiver.posts != breaksAfter+5 || to.open() != 1 { // after 1, 2, 4, 8, 16 s
			t.Errorf("%d posts in a minute; %g circuits are open", receiver.posts, to.open())
		}
		receiver.status = http.StatusBadRequest // an answer
		time.Sleep(maxPause)
		if err := to.Deliver(t.Context(), n); !delivery.IsPermanent(err) || to.open() != 0 {
			t.Errorf("%v; %g circuits are open", err, to.open())
		}
	})
}

func TestAChangedFileChangesOnlyTheReceiversThatDiffer(t *testing.T) {
	t.Parallel()
	to := NewTenants(TenantsConfig{Source: "/here"}, slog.New(slog.DiscardHandler))
	acme, other := TenantWebhook{Tenant: "acme", URL: "http://acme.example/", Events: []string{"online"}}, TenantWebhook{Tenant: "other", URL: "http://other.example/", Rate: 5}
	if err := to.Use([]TenantWebhook{acme, other}); err != nil {
		t.Fatal(err)
	}
	before := *to.byName.Load()
	other.Rate = 6
	if err := to.Use([]TenantWebhook{acme, other}); err != nil {
		t.Fatal(err)
	}
	after := *to.byName.Load()
	if before["acme"] != after["acme"] || before["other"] == after["other"] || to.Limit("other").Limit() != 6 || to.Limit("acme") != nil {
		t.Error("acme lost its circuit, or other kept its rate")
	}
	online, offline := ofTenant("acme", 1).Delivery.Transition, ofTenant("acme", 2).Delivery.Transition
	offline.To = schemas.Offline
	hides := *offline
	hides.Visibility = schemas.Nobody
	if !to.Wants(online) || to.Wants(offline) || !to.Wants(&hides) || to.Wants(ofTenant("third", 3).Delivery.Transition) {
		t.Error("the events of acme are not those that are sent")
	}
	err := to.Use([]TenantWebhook{{Tenant: "acme", URL: "ftp://x"}, {Tenant: "b", URL: "http://169.254.169.254/"},
		{Tenant: "c", URL: "http://c.example/", Secret: "short", Events: []string{"gone"}, Rate: -1}, {Tenant: "d", URL: "http://d.example/"}, {Tenant: "d", URL: "http://d.example/"}, {Tenant: "no/name", URL: "http://d.example/"}})
	for _, want := range []string{`tenants[0] ("acme"): url`, "--allow-link-local", "secret: must have at least 32", "events", "rate: must not be negative", "tenants[4].tenant: \"d\" is there twice", "tenants[5]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	if now := *to.byName.Load(); now["acme"] != after["acme"] || len(now) != 2 {
		t.Error("a file with faults has changed something")
	}
}

func TestTheFileOfTenantsIsReadStrictlyAndItsErrorsHoldNoSecret(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key := strings.Repeat("k3y", 12)
	write("acme.secret", key+"\n")
	t.Setenv("OTHER_SECRET", key)
	for name, text := range map[string]string{
		"yaml": "tenants:\n- {tenant: acme, url: 'https://acme.example/', secret_file: acme.secret, events: [online, offline], rate: 2.5}\n" +
			"- {tenant: '', url: 'https://other.example/', secret_env: OTHER_SECRET}\n",
		"json": `{"tenants": [{"tenant": "acme", "url": "https://acme.example/", "secret": "` + key + `", "events": ["online", "offline"], "rate": 2.5},
			{"tenant": "", "url": "https://other.example/", "secret": "` + key + `"}]}`,
	} {
		all, files, err := ReadTenants(write(name, text))
		want := []TenantWebhook{{"acme", "https://acme.example/", key, []string{"online", "offline"}, 2.5}, {"", "https://other.example/", key, nil, 0}}
		if err != nil || len(all) != 2 || !same(all[0], want[0]) || !same(all[1], want[1]) {
			t.Errorf("%s: %v, %v", name, all, err)
		}
		if watched := slices.Contains(files, filepath.Join(dir, "acme.secret")); watched != (name == "yaml") || files[0] != filepath.Join(dir, name) {
			t.Errorf("%s: watches %v", name, files)
		}
	}
	for text, want := range map[string]string{
		"tenants: [{tenant: a, urls: x}]":                            "urls",
		"tenants: [{url: 'http://x/'}]":                              "tenants[0].tenant: is missing",
		"tenants: [{tenant: a, secret: " + key + ", secret_env: X}]": "exclude each other",
		"tenants: [{tenant: a, secret_file: none}]":                  "tenants[0].secret_file",
		"tenants: [{tenant: a, secret_env: NOT_SET}]":                "NOT_SET is not set",
		"tenants: [{tenant: a, secret: " + key + ", rate: [1]}]":     "cannot unmarshal",
		"tenants: {a: {secret: " + key + "}}":                        "cannot unmarshal",
		"tenants: [{tenant: a, secret: {" + key + ": " + key + "}}]": "cannot unmarshal",
	} {
		_, _, err := ReadTenants(write("bad", text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "k3y") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func same(a, b TenantWebhook) bool {
	return a.Tenant == b.Tenant && (&endpoint{TenantWebhook: a}).same(b)
}
