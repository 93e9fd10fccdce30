package httpgate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/beattest"
)

// FuzzJSONRequest: what is accepted is a JSON object with the same beats as
// encoding/json finds, in range; what is not is told with a field or a reason.
func FuzzJSONRequest(f *testing.F) {
	for _, body := range []string{twoBeats, `{"beats":[]}`, `{"beats":[{"user_id":1e3,"device_id":7}]}`, `{"gateway_id":"g","gateway_epoch":1,"beats":[]}`,
		`{"beats":[{"user_id":"1","device_id":1,"idle_ms":2592000001}]}`, `{"beats":[{"user_id":1,"user_id":1,"device_id":1}]}`} {
		f.Add([]byte(body))
	}
	log := &beattest.Log{Partitions: partitions}
	mux, stop := start(f, config(), log)
	f.Cleanup(stop)
	f.Fuzz(func(t *testing.T, body []byte) {
		before := len(log.Beats())
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/presence/heartbeats", bytes.NewReader(body)))
		if w.Code != http.StatusAccepted {
			var answer struct {
				Error struct{ Code, Message string }
			}
			if json.Unmarshal(w.Body.Bytes(), &answer) != nil || answer.Error.Code == "" || answer.Error.Message == "" || w.Code >= 500 {
				t.Fatalf("%q: got %d %s", body, w.Code, w.Body)
			}
			if len(log.Beats()) != before {
				t.Fatalf("%q was refused and stored", body)
			}
			return
		}
		var plain struct{ Beats []struct{ Bye bool } }
		if err := json.Unmarshal(body, &plain); err != nil {
			t.Fatalf("%q was accepted: %v", body, err)
		}
		if want := fmt.Sprintf(`{"accepted":%d}`, len(plain.Beats)); strings.TrimSpace(w.Body.String()) != want {
			t.Fatalf("%q: got %s, want %s", body, w.Body, want)
		}
	})
}
