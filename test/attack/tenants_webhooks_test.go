//go:build unix

package attack_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
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

// A user of every tenant has the same name. Each receiver gets what is of its own tenant, also when the file
// changes and when the process starts again; nobody gets what is of tenants that are not in the file.
func TestNoWebhookGetsDeliveriesOfAnotherTenant(t *testing.T) {
	t.Parallel()
	h, to := newTenants(t), &hooks{T: t, got: map[string][]string{}}
	server := httptest.NewServer(to)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "tenants.yaml")
	route := func(tenants ...string) {
		text := "tenants:\n"
		for _, tenant := range tenants {
			text += fmt.Sprintf("- {tenant: %s, url: '%s/%s', secret: '%s'}\n", tenant, server.URL, tenant, hookSecret(tenant))
		}
		testkit.Check(t, os.WriteFile(file, []byte(text), 0o600))
	}
	start := func() *testkit.Program {
		return testkit.Start(t, testkit.Binary(t, "stillhere"), nil, "channel", "webhook", "--tenants-file", file, "--of", "transitions", "--from-start",
			"--kafka-brokers", h.Broker, "--ids", "text", "--identity-key-file", filepath.Join(h.Dir, app.IdentityFile), "--admin", "")
	}
	everywhere := func(bye bool) {
		for _, tenant := range []string{"", "acme", "evil", "third"} {
			h.beat(tenant, victim, bye)
		}
	}
	stop := func(p *testkit.Program) {
		p.Signal(syscall.SIGTERM)
		if code := p.Wait(20 * time.Second); code != 0 {
			t.Errorf("the channel stopped with %d", code)
		}
	}

	route("acme", "evil")
	p := start()
	everywhere(false)
	for _, tenant := range []string{"acme", "evil"} {
		testkit.Until(t, tenant+" hears of its user", 20*time.Second, func() bool { return to.count(tenant, `"state":"online"`) > 0 })
	}
	route("acme", "third")
	p.Signal(syscall.SIGHUP)
	testkit.Until(t, "the file is read again", 20*time.Second, func() bool { return strings.Contains(p.Err.String(), "the configuration is reloaded") })
	evil := to.count("evil", "")
	everywhere(true)
	for _, tenant := range []string{"acme", "third"} {
		testkit.Until(t, tenant+" hears that its user left", 20*time.Second, func() bool { return to.count(tenant, `"state":"offline"`) > 0 })
	}
	route("acme", "third", "acme")
	p.Signal(syscall.SIGHUP)
	testkit.Until(t, "a fault of the file is found", 20*time.Second, func() bool { return strings.Contains(p.Err.String(), "is there twice") })
	stop(p)
	if now := to.count("evil", ""); now != evil || to.count("", "") != 0 {
		t.Errorf("evil got %d posts after it was removed", now-evil)
	}
	if said := p.Err.String(); strings.Contains(said, "key of") {
		t.Errorf("a secret is in the log:\n%s", said)
	}

	route("acme", "third")
	before := to.count("acme", `"state":"online"`)
	everywhere(false) // while no process runs
	stop(func() *testkit.Program {
		p := start()
		testkit.Until(t, "acme hears what came meanwhile", 20*time.Second, func() bool { return to.count("acme", `"state":"online"`) > before })
		return p
	}())
}
