//go:build unix

package attack_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// hooks are the receivers of tenants, each at a path of its own.
type hooks struct {
	*testing.T
	mu  sync.Mutex
	got map[string][]string // bodies by tenant
}

func hookSecret(tenant string) string { return strings.Repeat("key of "+tenant+". ", 5) }

// ServeHTTP fails the test if anything of another tenant comes.
func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tenant := strings.TrimPrefix(r.URL.Path, "/")
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = schemas.VerifyNotice([]byte(hookSecret(tenant)), r.Header.Get(schemas.SignatureHeader), body, time.Now(), time.Minute)
	}
	if err != nil || r.Header.Get("Ce-Tenant") != tenant || !strings.Contains(string(body), `"tenant":"`+tenant+`"`) {
		h.Errorf("the receiver of %s got %v, %s (%v)", tenant, r.Header, body, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.got[tenant] = append(h.got[tenant], string(body))
}

// count is how many posts a tenant has got that say so.
func (h *hooks) count(tenant, saying string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, body := range h.got[tenant] {
		if strings.Contains(body, saying) {
			n++
		}
	}
	return n
}

// A user of every tenant has the same name. Each tenant has a channel; that of evil has a receiver that hangs. Each
// receiver gets what is of its own tenant, also when a channel starts again.
func TestNoWebhookGetsDeliveriesOfAnotherTenantOrWaitsForItsReceiver(t *testing.T) {
	t.Parallel()
	h, to := newTenants(t), &hooks{T: t, got: map[string][]string{}}
	server := httptest.NewServer(to)
	defer server.Close()
	hangs, hanging := make(chan struct{}), make(chan struct{}, 100)
	dead := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		hanging <- struct{}{}
		<-hangs
	}))
	defer dead.Close()
	defer close(hangs)
	start := func(tenant, url string) *testkit.Program {
		secret := filepath.Join(t.TempDir(), "secret")
		must.Do(t, os.WriteFile(secret, []byte(hookSecret(tenant)), 0o600))
		return testkit.Start(t, testkit.Binary(t, "stillhere"), nil, "channel", "webhook", "--name", tenant, "--tenant", tenant, "--allow-private",
			"--url", url+"/"+tenant, "--secret-file", secret, "--of", "transitions", "--from-start", "--timeout", "1s",
			"--kafka-brokers", h.Broker, "--ids", "text", "--identity-key-file", filepath.Join(h.Dir, app.IdentityFile), "--admin", "")
	}
	everywhere := func(bye bool) {
		for _, tenant := range []string{"", "acme", "evil", "third"} {
			h.beat(tenant, victim, bye)
		}
	}

	acme, third := start("acme", server.URL), start("third", server.URL)
	start("evil", dead.URL)
	everywhere(false)
	select {
	case <-hanging:
	case <-time.After(20 * time.Second):
		t.Error("the receiver of evil got nothing")
	}
	for _, tenant := range []string{"acme", "third"} {
		testkit.Until(t, tenant+" hears of its user", 20*time.Second, func() bool { return to.count(tenant, `"state":"online"`) > 0 })
	}
	acme.Stop()
	everywhere(true) // while it does not run
	testkit.Until(t, "third hears that its user left", 20*time.Second, func() bool { return to.count("third", `"state":"offline"`) > 0 })
	acme = start("acme", server.URL)
	testkit.Until(t, "acme hears what came meanwhile", 20*time.Second, func() bool { return to.count("acme", `"state":"offline"`) > 0 })
	acme.Stop()
	third.Stop()
	if to.count("evil", "")+to.count("", "") > 0 {
		t.Error("posts of other tenants came")
	}
}
