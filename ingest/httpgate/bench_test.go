package httpgate_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/schemas"
)

// nowhere is a log that takes everything and keeps nothing.
type nowhere struct{}

func (nowhere) Append(_ context.Context, _ schemas.Outgoing, done func(error)) { done(nil) }

// BenchmarkPost is a request of 1,000 beats from a gateway, in JSON, all but the
// socket.
func BenchmarkPost(b *testing.B) {
	post(b, config(), func(i int) string { return fmt.Sprint(1_000_000_007 + i) })
}

// BenchmarkPostNames is BenchmarkPost with --ids text.
func BenchmarkPostNames(b *testing.B) {
	cfg := config()
	cfg.Users = people
	post(b, cfg, func(i int) string { return fmt.Sprintf("6f9619ff-8b86-d011-b42d-00c04f%06x", i) })
}

func post(b *testing.B, cfg ingest.Config, user func(i int) string) {
	var beats strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&beats, `,{"user_id":"%s","device_id":7,"device_kind":"mobile","age_ms":0,"idle_ms":0}`, user(i))
	}
	body := named("gw-1", 1, beats.String()[1:])
	mux, stop := start(b, cfg, nowhere{})
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
