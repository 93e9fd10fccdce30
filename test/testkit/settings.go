//go:build unix

package testkit

import (
	"os"
	"strconv"
	"testing"

	"github.com/stillhere/stillhere/detector/liveness"
)

// PolicyFlags are the flags that set a policy.
func PolicyFlags(s liveness.Settings) []string {
	return []string{
		"--heartbeat-interval=" + s.HeartbeatInterval.String(), "--online-ttl=" + s.OnlineTTL.String(),
		"--offline-debounce=" + s.OfflineDebounce.String(), "--away-ttl=" + s.AwayTTL.String(), "--idle-after=" + s.IdleAfter.String(),
		"--bye-debounce=" + s.ByeDebounce.String(), "--allowed-lateness=" + s.AllowedLateness.String(),
		"--reconnect-window=" + s.ReconnectWindow.String(), "--cohort-rate=" + strconv.Itoa(s.CohortRate),
	}
}

// Number is a whole number from the environment.
func Number(t *testing.T, name string, otherwise int64) int64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// Check ends the test if err is not nil.
func Check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
