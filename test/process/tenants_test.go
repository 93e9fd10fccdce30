//go:build unix

package process_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"
)

// tool runs a command, which must succeed and say what is wanted.
func tool(h *testkit.Dev, want string, words ...string) string {
	h.Helper()
	p := testkit.Start(h.T, testkit.Binary(h.T, "stillhere"), nil, append(words, "--kafka-brokers", h.Broker)...)
	code := p.Wait(time.Minute)
	said := p.Out.String() + p.Err.String()
	if code != 0 || !strings.Contains(said, want) {
		h.Errorf("stillhere %s: code %d, want %q in:\n%s", strings.Join(words, " "), code, want, said)
	}
	return p.Out.String()
}

func TestAnOperatorBoundsATenantWhileThePipelineRuns(t *testing.T) {
	t.Parallel()
	h := testkit.NewDev(t, "--ids", "text")
	h.Up()
	ask := func(method, path, body string) (status int, answer string) {
		h.Helper()
		status, text, err := h.Ask(method, path, "application/json", strings.NewReader(body))
		if err != nil {
			h.Fatalf("%s %s: %v", method, path, err)
		}
		return status, string(text)
	}
	beat := func(tenant, user string) (status int, answer string) {
		return ask(http.MethodPost, "/presence/heartbeats?tenant="+tenant, `{"beats":[{"user_id":"`+user+`","device_id":"phone"}]}`)
	}
	accepted := func(tenant, user string) {
		h.Helper()
		if status, answer := beat(tenant, user); status != http.StatusAccepted {
			h.Errorf("a beat of %s of tenant %s is answered %d %s", user, tenant, status, answer)
		}
	}
	accepted("acme", "ann")
	accepted("quiet", "ann")

	tool(h, "are changed", "tenants", "set", "acme", "users_online=1", "changes_per_second_per_process=1", "note=trial")
	tool(h, "are changed", "tenants", "set", "*", "reads_per_second_per_process=200")
	tool(h, "set for all tenants (*)", "tenants", "show", "acme")
	var listed []struct {
		Tenant   string
		Settings map[string]*int64
		Note     string
	}
	if err := json.Unmarshal([]byte(tool(h, "", "tenants", "show", "--output", "json")), &listed); err != nil || len(listed) != 2 ||
		listed[1].Tenant != "acme" || listed[1].Note != "trial" || *listed[1].Settings["users_online"] != 1 || *listed[1].Settings["reads_per_second_per_process"] != 200 {
		h.Errorf("listed are %+v, %v", listed, err)
	}

	tries := 0
	full := func() bool { // whoever is let in before the processes have the settings goes on
		tries++
		status, answer := beat("acme", fmt.Sprint("newcomer ", tries))
		return status == http.StatusTooManyRequests && strings.Contains(answer, `"field":"users_online"`)
	}
	testkit.Until(t, "a newcomer of a full tenant is refused", 30*time.Second, full)
	accepted("acme", "ann")
	accepted("quiet", "ben")
	hide := func(tenant string) int {
		status, _ := ask(http.MethodPut, "/presence/ann/visibility?tenant="+tenant, `{"visibility":"everyone"}`)
		return status
	}
	testkit.Until(t, "too many changes are refused", 30*time.Second, func() bool { return hide("acme") == http.StatusTooManyRequests })
	if status := hide("quiet"); status != http.StatusOK {
		h.Errorf("a change of another tenant is answered %d", status)
	}

	tool(h, "are removed", "tenants", "set", "acme", "--unset")
	testkit.Until(t, "a newcomer is let in again", 30*time.Second, func() bool { status, _ := beat("acme", "ben"); return status == http.StatusAccepted })
}
