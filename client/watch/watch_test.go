package watch_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/watch"
)

// says is the URL of a server whose stream sends messages.
func says(t *testing.T, messages ...string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		for _, message := range messages {
			if conn.Write(r.Context(), websocket.MessageText, []byte(message)) != nil {
				return
			}
		}
		for {
			if _, _, err := conn.Read(context.WithoutCancel(r.Context())); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// first returns the first n events.
func first(ctx context.Context, t *testing.T, n int, events func(context.Context) iter.Seq2[watch.Event, error]) (all []watch.Event) {
	t.Helper()
	for event, err := range events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, event); len(all) == n {
			break
		}
	}
	if len(all) != n {
		t.Fatalf("%d events, want %d: %+v", len(all), n, all)
	}
	return all
}

// events returns the first n events of a watcher of users, whose server sends messages.
func events(t *testing.T, n int, users []string, messages ...string) (all []watch.Event, w *watch.Watcher) {
	t.Helper()
	w, err := watch.New(watch.Config{HTTP: client.HTTP{URL: says(t, messages...)}}, users...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return first(ctx, t, n, w.Events), w
}

const hello = `{"type":"hello","heartbeat_interval_ms":15000,"heartbeat_jitter_ms":1500,"max_subscriptions":500}`

func TestASlowReaderGetsTheNumberOfCollapsedChangesAndEmptyMessagesAreSkipped(t *testing.T) {
	t.Parallel()
	got, _ := events(t, 2, []string{"1"}, hello, `{"type":"change"}`, `{"type":"error"}`, `{"type":"collapsed","count":17}`)
	if got[0].Kind != watch.Connected || got[1].Kind != watch.Collapsed || got[1].Count != 17 {
		t.Errorf("got %+v, want connected and 17 collapsed changes", got)
	}
}
