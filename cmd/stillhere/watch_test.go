package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

func TestWatchingEndsWhenNobodyIsLeftToWatchAndNotForWhatPasses(t *testing.T) {
	left := map[string]bool{"1": true, "7": true}
	for i, c := range []struct {
		code, user string
		ends       bool
	}{
		{"unavailable", "", false}, {"too_slow", "", false}, {"rate_limited", "", false},
		{"not_allowed", "7", false}, {"not_allowed", "7", false},
		{"too_many_subscriptions", "", true}, {"not_allowed", "", true},
		{"not_allowed", "1", true},
	} {
		p := &watch.Problem{Code: c.code, UserID: c.user, Message: "no"}
		if err := heed(p, left); (err != nil) != c.ends {
			t.Errorf("%d: %+v: %v", i, p, err)
		}
	}
	if got := textOf(&watch.Problem{UserID: "7", Message: "you may not watch this user"}); got != "user 7: you may not watch this user" {
		t.Error(got)
	}
}

func TestWatchingShowsOfNamesWhatTerminalsObey(t *testing.T) {
	const name = "ann\x1b[2J\u202e\nuser bob"
	const want = `user ann\x1b[2J\u202e\nuser bob`
	for _, colours := range []bool{false, true} {
		if got := painter(colours)(schemas.User{UserID: name}); !strings.Contains(got, want) {
			t.Errorf("a line is %+q, want %s", got, want)
		}
	}
	if got := textOf(&watch.Problem{UserID: name}); !strings.HasPrefix(got, want) {
		t.Errorf("a problem is %+q, want %s", got, want)
	}
}

func TestTimesForPeopleAreInUTCWithTheDayIfItIsNotToday(t *testing.T) {
	tokyo := time.FixedZone("JST", 9*60*60)
	now := time.Date(2026, 11, 24, 8, 46, 57, 0, tokyo) // the 23rd in UTC
	for want, at := range map[string]time.Time{
		"23:46:57.000 UTC":            now,
		"00:00:00.000 UTC":            time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC),
		"2026-11-22 23:59:59.999 UTC": time.Date(2026, 11, 22, 23, 59, 59, 999e6, time.UTC),
		"2026-11-24 00:00:00.000 UTC": now.Add(13*time.Minute + 3*time.Second),
	} {
		if got := clock(at, now); got != want {
			t.Errorf("%s is printed as %q, want %q", at, got, want)
		}
	}
	long := schemas.MillisOf(time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC))
	offline := "offline"
	line := painter(false)(schemas.User{UserID: "1", Presence: schemas.Presence{State: &offline, LastSeenAt: long, StaleSince: long, UnsureSince: long}})
	for _, want := range []string{"last seen ", "stale since ", "unsure since "} {
		if !strings.Contains(line, want+"2020-01-02 03:04:05.000 UTC") {
			t.Errorf("%s lacks %s with its day", line, want)
		}
	}
	if line := painter(false)(schemas.User{Presence: schemas.Presence{State: &offline, LastSeen: "long_ago"}}); !strings.Contains(line, "last seen long_ago") {
		t.Errorf("%s does not say about when", line)
	}
}
