package watch_test

import (
	"context"
	"testing"
	"time"

	"github.com/stillhere/stillhere/client/watch"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

// Users 1 and 2 are unsure, or stale, when the connection is lost. User 2 still is when it resumes.
func TestAfterAResumeOnlyThoseWhoComeAgainAreUnsureOrStale(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"unsure_since", "stale_since"} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			resumeWhile(t, `,"`+field+`":"2025-11-21T04:40:00Z"`)
		})
	}
}

func resumeWhile(t *testing.T, unsure string) {
	t.Helper()
	user := func(id, more string) string {
		return `{"user_id":"` + id + `","state":"online","version":"7"` + more + `}`
	}
	connections := [][]string{
		{hello, `{"type":"snapshot","users":[` + user("1", "") + `,` + user("2", unsure) + `]}`,
			`{"type":"resync","users":[` + user("1", unsure) + `]}`},
		{hello, `{"type":"change","user":` + user("2", unsure) + `}`, `{"type":"resumed","missed":1}`},
	}
	w, end := watching([]string{"1", "2"}, connections...)
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	got, connected := map[string][]bool{}, 0
	for event, err := range w.Events(ctx) {
		must.Do(t, err)
		switch event.Kind {
		case watch.Connected:
			connected++
		case watch.Changed:
			got[event.User.UserID] = append(got[event.User.UserID], event.User.UnsureSince+event.User.StaleSince != 0)
		}
		if connected == 2 && len(got["1"]) == 3 {
			break
		}
	}
	if one, two := got["1"], got["2"]; len(one) != 3 || one[0] || !one[1] || one[2] || len(two) != 1 || !two[0] {
		t.Errorf("user 1 was unsure %v, want [false true false]; user 2 %v, want [true]", got["1"], got["2"])
	}
}
