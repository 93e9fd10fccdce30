package httpgate_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

// nowhere is a log that takes everything and keeps nothing.
type nowhere struct{}

func (nowhere) Append(_ context.Context, _ schemas.Outgoing, done func(error)) { done(nil) }

// BenchmarkPost is a request of 1,000 beats from a gateway, in JSON, all but the
// socket.
func BenchmarkPost(b *testing.B) {
	var beats strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&beats, `,{"user_id":"%d","device_id":7,"device_kind":"mobile","age_ms":0,"idle_ms":0}`, 1_000_000_007+i)
	}
	body := `{"gateway_id":"gw-1","gateway_epoch":"1763700000000","beats":[` + beats.String()[1:] + `]}`
	mux, stop := start(b, config(), nowhere{})
	defer stop()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/presence/heartbeats", strings.NewReader(body)))
		if w.Code != http.StatusAccepted {
			b.Fatal(w.Code, w.Body)
		}
	}
}
