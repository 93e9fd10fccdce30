//go:build unix

package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
)

const (
	stopUsers   = 500 // the first of whom beat over sockets, the others over HTTP
	stopSockets = 200
	stopWithin  = 15 * time.Second
)

func TestAPlannedRestartUnderLoadIsQuickAndNobodySeesIt(t *testing.T) {
	t.Parallel()
	policy := liveness.Defaults()
	policy.HeartbeatInterval, policy.OnlineTTL, policy.OfflineDebounce, policy.AwayTTL = 2*time.Second, 10*time.Second, 5*time.Second, time.Minute
	policy.ReconnectWindow = 10 * time.Second
	h := testkit.NewDev(t, testkit.PolicyFlags(policy)...)
	h.Up()
	ctx, quit := context.WithCancel(t.Context())
	var loads sync.WaitGroup
	defer loads.Wait()
	defer quit()
	var users []schemas.UserID
	for user := schemas.UserID(1); user <= stopUsers; user++ {
		if users = append(users, user); user <= stopSockets {
			loads.Go(func() { stay(h, ctx, user) })
		}
	}
	for i := range 10 {
		loads.Go(func() { keepPosting(h, ctx, users[stopSockets:], i, 10) })
	}
	h.AllAre("online", users)

	stopped := time.Now()
	h.Signal(syscall.SIGTERM)
	if code := h.Wait(2 * stopWithin); code != 0 {
		t.Errorf("the exit code is %d:\n%s", code, testkit.Tail(h.Err.String(), 2000))
	}
	if took := time.Since(stopped); took > stopWithin {
		t.Errorf("stopping took %s, must take at most %s", took, stopWithin)
	} else {
		t.Logf("stopping took %s", took)
	}
	h.Up()
	// A user who had not been heard again would be away by then.
	over := stopped.Add(policy.OnlineTTL + policy.OfflineDebounce + policy.ReconnectWindow + 2*time.Second)
	testkit.Until(t, "the time of those who did not return is over", time.Minute, func() bool { return time.Now().After(over) })
	for user, state := range h.States(users...) {
		if state != "online" {
			t.Errorf("user %d is %s", user, state)
		}
	}
	for _, user := range users {
		if history := h.History(user); len(history) != 1 {
			t.Errorf("user %d was here all the time, but the history is %+v", user, history)
		}
	}
}

// keepPosting posts beats of one in n users until ctx ends, whether or not
// somebody listens.
func keepPosting(h *testkit.Dev, ctx context.Context, users []schemas.UserID, i, n int) {
	var beats []testkit.Beat
	for ; i < len(users); i += n {
		beats = append(beats, testkit.Beat{User: users[i], Device: 1, Kind: "mobile"})
	}
	ticker := time.NewTicker(300 * time.Millisecond)
	defer ticker.Stop()
	for {
		_ = h.Send(beats...)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// stay keeps a socket open until ctx ends: when it is asked to, or loses it, it
// connects again.
func stay(h *testkit.Dev, ctx context.Context, user schemas.UserID) {
	for ctx.Err() == nil {
		conn, _, err := websocket.Dial(ctx, fmt.Sprintf("ws://%s/presence/connect?user_id=%d&device_id=1&device_kind=web", h.Listen, user), nil)
		if err == nil {
			beats, end := context.WithCancel(ctx)
			var beating sync.WaitGroup
			beating.Go(func() { beatOn(beats, conn) })
			if after, asked := readOn(ctx, conn); asked {
				stepBack(h, ctx, min(after, 3*time.Second))
			}
			end()
			beating.Wait()
			conn.CloseNow()
		}
		stepBack(h, ctx, 200*time.Millisecond)
	}
}

// stepBack waits before the next try.
func stepBack(h *testkit.Dev, ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// beatOn sends beats until that is no longer possible.
func beatOn(ctx context.Context, conn *websocket.Conn) {
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if conn.Write(ctx, websocket.MessageText, nil) != nil {
				return
			}
		}
	}
}

// readOn reads until the socket ends, and reports whether the service asked for a
// reconnect, and when.
func readOn(ctx context.Context, conn *websocket.Conn) (after time.Duration, asked bool) {
	for {
		_, text, err := conn.Read(ctx)
		if err != nil {
			var closed websocket.CloseError
			return after, asked || errors.As(err, &closed)
		}
		var m message
		if json.Unmarshal(text, &m) == nil && m.Type == "reconnect" {
			after, asked = time.Duration(m.After)*time.Millisecond, true
		}
	}
}
