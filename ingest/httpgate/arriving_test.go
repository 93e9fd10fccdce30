package httpgate_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/schemas"
)

// slowly is a request whose body ends with rest, which is said after so long.
func (d endpoint) slowly(c *ingest.Caller, method, path, rest string, after time.Duration) *httptest.ResponseRecorder {
	ours, theirs := io.Pipe()
	go func() {
		<-time.After(after)
		_, _ = io.WriteString(theirs, rest) // who does not read it has answered
		_ = theirs.Close()
	}()
	defer ours.Close()
	r := httptest.NewRequest(method, path, ours)
	w := httptest.NewRecorder()
	d.mux.ServeHTTP(w, r.WithContext(ingest.WithCaller(r.Context(), c)))
	return w
}

func TestBodiesThatAreOnTheirWayTakeNoPlaceFromOthers(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.HTTP.MaxRequests, cfg.HTTP.MaxVisibility = 1, 1
	inBubble(t, cfg, func(d endpoint) {
		for user := range 5 {
			go d.slowly(&ingest.Caller{User: schemas.UserID(user + 1)}, http.MethodPost, "/presence/heartbeats", twoBeats, time.Second)
		}
		synctest.Wait()
		d.wants(d.post(twoBeats), 202, "")
		d.wants(d.send(http.MethodPut, "/presence/1/visibility", `{"visibility":"nobody"}`), 200, "")
		pass(2 * time.Second)
	})
}

func TestOneCallersUnreadBodiesAreBounded(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.HTTP.MaxArriving = 2
	inBubble(t, cfg, func(d endpoint) {
		slow := func(c *ingest.Caller) {
			go d.slowly(c, http.MethodPost, "/presence/heartbeats", `{"beats":[{"user_id":1,"device_id":7}]}`, time.Second)
		}
		user, gateway := &ingest.Caller{User: 1}, &ingest.Caller{Gateway: "gw"}
		for range 2 {
			slow(user)
			slow(gateway)
		}
		synctest.Wait()
		for _, c := range []*ingest.Caller{user, gateway} {
			w := d.slowly(c, http.MethodPost, "/presence/heartbeats", "", 0)
			if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), `"too_many_requests"`) {
				t.Errorf("the third body of %+v: %d %s", c, w.Code, w.Body)
			}
		}
		if w := d.slowly(&ingest.Caller{User: 2}, http.MethodPost, "/presence/heartbeats", `{"beats":[{"user_id":2,"device_id":7}]}`, 0); w.Code != http.StatusAccepted {
			t.Errorf("another user: %d %s", w.Code, w.Body)
		}
		pass(2 * time.Second)
		if w := d.slowly(user, http.MethodPost, "/presence/heartbeats", `{"beats":[{"user_id":1,"device_id":7}]}`, 0); w.Code != http.StatusAccepted {
			t.Errorf("after the first two have arrived: %d %s", w.Code, w.Body)
		}
	})
}
