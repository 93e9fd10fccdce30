package redisbus_test

import (
	"testing"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/schemas"
)

// A projector that is late by an hour must not show who hid.
func TestAHideIsStoredLongerThanOtherChanges(t *testing.T) {
	t.Parallel()
	r := redistest.Mini(t)
	hide, _ := fanout.ChangeOf(&schemas.Transition{User: 2, From: schemas.Online, To: schemas.Online, At: 2000,
		Cause: schemas.VisibilityChange, Visibility: schemas.Nobody, Version: 3})
	publish(t, open(t, r), change(1, 1, schemas.Offline, schemas.Online), hide)
	config := fanout.DefaultConfig()
	if got := r.Mini.TTL("presence:recent:{1}"); got != config.RecentFor {
		t.Errorf("a change is kept for %s", got)
	}
	if got := r.Mini.TTL("presence:recent:{2}"); got != config.HiddenFor {
		t.Errorf("a hide is kept for %s", got)
	}
}
