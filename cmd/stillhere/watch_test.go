package main

import (
	"testing"

	"github.com/stillhere/stillhere/internal/watch"
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
