//go:build unix

package attack_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// attackSecret signs the tokens of the tests that attack a process.
const attackSecret = "a-secret-of-the-attacks-of-32-bytes"

// newGuardedHouse is newHouse with authentication.
func newGuardedHouse(t *testing.T, flags ...string) *testkit.Dev {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(file, []byte(attackSecret), 0o600))
	return testkit.NewDev(t, append([]string{"--auth-secret-file", file}, flags...)...)
}

// tokenOf is a token of a user, or of a gateway where user is 0.
func tokenOf(t *testing.T, user schemas.UserID, gateway schemas.GatewayID) string {
	t.Helper()
	return issued(t, auth.Caller{User: user, Gateway: gateway, Scopes: []string{auth.Beat, auth.Read}})
}

// issued is a token of the caller, for an hour.
func issued(t *testing.T, caller auth.Caller) string {
	t.Helper()
	config := auth.Defaults()
	config.Secret, caller.Until = keys.Secret{Value: attackSecret}, time.Now().Add(time.Hour)
	return must.Get(auth.Issue(config, caller, time.Now()))(t)
}

// with makes a request with a token.
func with(h *testkit.Dev, token, method, path, body string) (status int, answer string) {
	h.Helper()
	return (&tenants{Dev: h}).tried(token, request{method, path, body, ""})
}

// manyDevices is a request of so many devices of one user.
func manyDevices(user schemas.UserID, devices int) string {
	beats := make([]string, devices)
	for i := range beats {
		beats[i] = fmt.Sprintf(`{"user_id":%d,"device_id":%d}`, user, i+1)
	}
	return `{"beats":[` + strings.Join(beats, ",") + `]}`
}

func TestAHundredRequestsOfTenThousandDevicesOfOneUserAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	h := newGuardedHouse(t)
	h.Up()
	const attacker, honest = 66, 1
	body, token := manyDevices(attacker, 10_000), tokenOf(t, attacker, "")
	begun := time.Now()
	for i := range 100 {
		status, answer := with(h, token, http.MethodPost, "/presence/heartbeats", body)
		switch {
		case status == http.StatusBadRequest && strings.Contains(answer, `"too_many_devices"`):
		case i > 0 && status == http.StatusTooManyRequests: // the refused beats were charged
		default:
			t.Fatalf("request %d is answered %d %s", i, status, answer)
		}
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("a hundred refusals took %s", took)
	}
	begun = time.Now()
	if status, answer := with(h, tokenOf(t, honest, ""), http.MethodPost, "/presence/heartbeats", manyDevices(honest, 1)); status != http.StatusAccepted {
		t.Fatalf("an honest beat is answered %d %s", status, answer)
	}
	is := func(user schemas.UserID, state string) bool {
		status, answer := with(h, tokenOf(t, 0, "gw-1"), http.MethodGet, "/presence/"+user.String(), "")
		return status == http.StatusOK && strings.Contains(answer, `"state":"`+state+`"`)
	}
	testkit.Until(t, "an honest user is online", 10*time.Second, func() bool { return is(honest, "online") })
	t.Logf("after the attack an honest user is online within %s", time.Since(begun).Round(time.Millisecond))
	if is(attacker, "online") {
		t.Error("beats that were refused count")
	}
	if status, answer := with(h, tokenOf(t, 0, "gw-1"), http.MethodPost, "/presence/heartbeats", manyDevices(2, 100)); status != http.StatusAccepted {
		t.Errorf("a gateway's batch of one user's devices is answered %d %s", status, answer)
	}
}

// A gateway may say what it likes of its users, and a request of its may be of one user alone.
func TestAHundredRequestsOfTenThousandDevicesThroughAGatewayHoldUpNobody(t *testing.T) {
	t.Parallel()
	h := newGuardedHouse(t)
	h.Up()
	const attacker = 66
	gateway := tokenOf(t, 0, "gw-1")
	is := func(user schemas.UserID, state string) bool {
		status, answer := with(h, gateway, http.MethodGet, "/presence/"+user.String(), "")
		return status == http.StatusOK && strings.Contains(answer, `"state":"`+state+`"`)
	}
	comes := func(user schemas.UserID) {
		t.Helper()
		begun := time.Now()
		if status, answer := with(h, gateway, http.MethodPost, "/presence/heartbeats", manyDevices(user, 1)); status != http.StatusAccepted {
			t.Fatalf("the beat of user %d is answered %d %s", user, status, answer)
		}
		testkit.Until(t, "user "+user.String()+" is online", 10*time.Second, func() bool { return is(user, "online") })
		if took := time.Since(begun); took > time.Second {
			t.Errorf("user %d was online after %s", user, took)
		} else {
			t.Logf("user %d was online after %s", user, took)
		}
	}
	honest := schemas.UserID(100)
	for i := range 100 {
		var beats []string
		for d := range 10_000 {
			beats = append(beats, fmt.Sprintf(`{"user_id":%d,"device_id":%d}`, attacker, i*10_000+d+1))
		}
		if status, answer := with(h, gateway, http.MethodPost, "/presence/heartbeats", `{"beats":[`+strings.Join(beats, ",")+`]}`); status != http.StatusAccepted {
			t.Fatalf("request %d is answered %d %s", i, status, answer)
		}
		if i%20 == 19 {
			for range 4 { // of every partition, as it may be
				honest++
				comes(honest)
			}
		}
	}
	h.Kill()
	begun := time.Now()
	h.Up()
	honest++
	comes(honest)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("after a kill it serves after %s", took)
	} else {
		t.Logf("after a kill it serves after %s", took)
	}
}
