package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestWithoutAuthenticationOnlyRequestsForAllowedHostsAreAnswered(t *testing.T) {
	t.Parallel()
	here := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	allowed := []string{"presence.internal"}
	for _, c := range []struct {
		listen string
		hosts  string // that are answered
		others string // that are not
	}{
		{"127.0.0.1:8080", "127.0.0.1:8080 127.0.0.1 localhost:9999 LOCALHOST app.localhost [::1]:8080 127.8.8.8 presence.internal Presence.Internal:80",
			"evil.example evil.example:8080 127.0.0.1.evil.example localhost.evil.example 10.0.0.1 [2001:db8::1]:8080 0.0.0.0:8080"},
		{"10.0.0.1:8080", "10.0.0.1:8080 10.0.0.1 127.0.0.1 localhost", "10.0.0.2 evil.example"},
		{"0.0.0.0:8080", "10.0.0.1:8080 [2001:db8::1]:8080 localhost presence.internal", "evil.example 10.0.0.1.evil.example"},
		{":8080", "10.0.0.1:8080", "evil.example"},
		{"box:8080", "box box:80", "evil.example"},
	} {
		handler := allowHosts(c.listen, allowed, here)
		for hosts, want := range map[string]int{c.hosts: http.StatusOK, c.others: http.StatusMisdirectedRequest} {
			for host := range strings.FieldsSeq(hosts) {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.Host = host
				w := httptest.NewRecorder()
				if handler.ServeHTTP(w, r); w.Code != want {
					t.Errorf("on %s a request for %s is answered %d, want %d", c.listen, host, w.Code, want)
				}
			}
		}
	}
}

func TestPortsThatOtherMachinesReachAreOpenedByTheirOwnFlags(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		"--admin-expose":   func(c *Config) { c.Admin = "0.0.0.0:9090" },
		"admin: \"x\"":     func(c *Config) { c.Admin = "x" },
		"allowed_hosts[1]": func(c *Config) { c.AllowedHosts = []string{"a", "http://b"} },
		"auth_secret: is the example": func(c *Config) {
			c.Listen, c.Auth.Secret = "0.0.0.0:8080", "change-me-change-me-change-me-change-me"
		},
	} {
		c := Defaults()
		c.Kafka.Brokers = []string{"127.0.0.1:9092"}
		must.Do(t, Check("ingest", c))
		change(&c)
		if err := Check("ingest", c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
		c.AdminExpose, c.AllowedHosts, c.Listen = true, nil, "127.0.0.1:8080"
		if err := Check("ingest", c); err != nil && !strings.HasPrefix(want, "admin:") {
			t.Errorf("%q: %v", want, err)
		}
	}
}
