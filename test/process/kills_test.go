//go:build unix

package process_test

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

const (
	killUsers = 200
	devKills  = 5
)

func TestKillsOfTheWholeServiceLoseAndDoubleNoChange(t *testing.T) {
	if os.Getenv("STILLHERE_KILLS_OF_DEV") == "" {
		t.Skip("kfake's transactions are not atomic across a kill -9 of the broker itself (internal/embedded/DESIGN.md), and dev has it inside: " +
			"one run in some doubles a change. STILLHERE_KILLS_OF_DEV=1 runs it all the same")
	}
	t.Parallel()
	policy := liveness.Defaults()
	policy.HeartbeatInterval, policy.OnlineTTL, policy.OfflineDebounce, policy.AwayTTL = 250*time.Millisecond, 500*time.Millisecond, 250*time.Millisecond, 1500*time.Millisecond
	h := testkit.NewDev(t, testkit.PolicyFlags(policy)...)
	h.Up()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		load(h, quit)
	}()
	for range devKills {
		<-time.After(500*time.Millisecond + rand.N(1500*time.Millisecond))
		h.Kill()
		<-time.After(rand.N(500 * time.Millisecond))
		h.Up()
	}
	close(quit)
	<-done
	var users []schemas.UserID
	for user := range schemas.UserID(killUsers) {
		users = append(users, user+1)
	}
	testkit.Until(t, "all users are offline", 20*time.Second, func() bool {
		for _, state := range h.States(users...) {
			if state != "offline" {
				return false
			}
		}
		return true
	})
	want := h.Oracle(policy)
	h.LogHas(want)
	rows := 0
	for _, user := range users {
		got := h.HistoryOf(user, len(want[user]))
		rows += len(got)
		testkit.Chained(t, user, got)
		if len(got) != len(want[user]) {
			t.Errorf("the history of user %d has %d rows, must have %d", user, len(got), len(want[user]))
			continue
		}
		for i := range got {
			if event := want[user][i].EventID().String(); got[i].Event != event {
				t.Errorf("row %d of the history of user %d is %+v, must be %s", i, user, got[i], testkit.InWords(&want[user][i]))
				break
			}
		}
	}
	t.Logf("%d kills, %d rows of %d users are those of an undisturbed run", devKills, rows, len(users))
	if rows < 10*killUsers {
		t.Errorf("only %d rows: the test tested little", rows)
	}
}

// load lets users beat, and one in ten leave, until quit is closed. What does
// not arrive because the service is down does not arrive.
func load(h *testkit.Dev, quit <-chan struct{}) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-quit:
			return
		case <-ticker.C:
		}
		beats := make([]testkit.Beat, 1+rand.IntN(16))
		for i := range beats {
			beats[i] = testkit.Beat{User: schemas.UserID(1 + rand.IntN(killUsers)), Device: schemas.DeviceID(1 + rand.IntN(2)), Bye: rand.IntN(10) == 0}
		}
		_ = h.Send(beats...)
	}
}
