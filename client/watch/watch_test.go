package watch_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/watch"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

// script is a server whose stream plays lines for each connection: "? x" waits for a message of the client that has x,
// every other line is sent. It closes each connection but the last.
func script(connections ...[]string) *httptest.Server {
	next := make(chan []string, len(connections))
	for _, lines := range connections {
		next <- lines
	}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		ctx := context.WithoutCancel(r.Context())
		heard := func(text string) bool {
			for {
				if _, message, err := conn.Read(ctx); err != nil || strings.Contains(string(message), text) {
					return err == nil
				}
			}
		}
		for _, line := range <-next {
			if text, wait := strings.CutPrefix(line, "? "); wait && !heard(text) ||
				!wait && conn.Write(ctx, websocket.MessageText, []byte(line)) != nil {
				return
			}
		}
		if len(next) == 0 {
			heard("the end")
		}
	}))
}

// watching is a watcher of users at a server that plays a script.
func watching(users []string, connections ...[]string) (w *watch.Watcher, end func()) {
	server := script(connections...)
	w, err := watch.New(watch.Config{HTTP: client.HTTP{URL: server.URL}, FirstWait: time.Millisecond}, users...)
	if err != nil {
		panic(err)
	}
	return w, server.Close
}

// is is a user as messages have it; the newer one has the greater version.
func is(user, state string, version int) string {
	return fmt.Sprintf(`{"user_id":%q,"state":%q,"version":"%d"}`, user, state, version)
}

func snapshot(users ...string) string {
	return `{"type":"snapshot","users":[` + strings.Join(users, ",") + `],"cursor":"c"}`
}

func change(user string) string { return `{"type":"change","user":` + user + `,"cursor":"c"}` }

const resumed = `{"type":"resumed","cursor":"d"}`

// first returns the first n events.
func first(ctx context.Context, t *testing.T, n int, events func(context.Context) iter.Seq2[watch.Event, error]) (all []watch.Event) {
	t.Helper()
	for event, err := range events(ctx) {
		must.Do(t, err)
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
	w, end := watching(users, messages)
	t.Cleanup(end)
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
