package httpgate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/ingest/httpgate"
)

// beatsOf is a body with n beats of as many devices of user 1.
func beatsOf(n, devices int) string {
	beats := make([]string, n)
	for i := range beats {
		beats[i] = fmt.Sprintf(`{"user_id":1,"device_id":%d}`, 1+i%devices)
	}
	return `{"beats":[` + strings.Join(beats, ",") + `]}`
}

func TestAUsersTokenHasAtMost32DevicesInARequestAndOthersHaveAny(t *testing.T) {
	t.Parallel()
	d := open(t, config())
	user := &ingest.Caller{User: 1}
	d.wants(d.as(user, beatsOf(32, 32)), 202, "")
	d.wants(d.as(user, beatsOf(100, 32)), 202, "")
	w := d.as(user, beatsOf(33, 33))
	if !strings.Contains(w.Body.String(), `"too_many_devices"`) || !strings.Contains(w.Body.String(), `"field":"beats"`) || w.Code != 400 {
		t.Errorf("33 devices of one user are answered %d %s", w.Code, w.Body)
	}
	for _, c := range []*ingest.Caller{nil, {Gateway: "gw-1"}, {User: 1, Any: true}} {
		d.wants(d.as(c, beatsOf(10_000, 10_000)), 202, "")
	}
}

func TestAnotherPolicysMaxDevicesHoldsForTheNextRequest(t *testing.T) {
	t.Parallel()
	other := config()
	other.HTTP.MaxDevices = 2
	d := open(t, config(), func(g *httpgate.Gate) { g.Follow(other) })
	w := d.as(&ingest.Caller{User: 1}, beatsOf(3, 3))
	if !strings.Contains(w.Body.String(), "at most 2 devices") || w.Code != 400 {
		t.Errorf("3 devices of one user are answered %d %s", w.Code, w.Body)
	}
}

func TestWhatTheLimitOnBeatsSaysIsAnswered(t *testing.T) {
	t.Parallel()
	d := open(t, config())
	for _, c := range []struct {
		wait   time.Duration
		most   int
		status int
		code   string
		retry  string
	}{
		{0, 0, 202, "accepted", ""},
		{1500 * time.Millisecond, 0, 429, "too_many_requests", "2"},
		{0, 5, 400, "too_many_beats", ""},
	} {
		charged := 0
		w := d.as(&ingest.Caller{User: 1, Charge: func(beats int) (time.Duration, int) {
			charged = beats
			return c.wait, c.most
		}}, beatsOf(7, 1))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.code) || w.Header().Get("Retry-After") != c.retry || charged != 7 {
			t.Errorf("waiting %s, room for %d: answered %d %s, Retry-After %q, %d beats were charged", c.wait, c.most, w.Code, w.Body, w.Header().Get("Retry-After"), charged)
		}
	}
	if n := len(d.log.Written()); n != 1 {
		t.Errorf("%d frames were written, want one: of refused requests nothing is", n)
	}
}
