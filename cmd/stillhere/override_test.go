package main

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

func TestAnEndIsATimeFromNowOnOrAnInstant(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"8h":                        now.Add(8 * time.Hour),
		"2d":                        now.Add(48 * time.Hour),
		"1.5h":                      now.Add(90 * time.Minute),
		"2026-12-24T18:00":          time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC),
		"2026-12-24T18:00:00+01:00": time.Date(2026, 12, 24, 17, 0, 0, 0, time.UTC),
	} {
		if at, err := later("--until", text, now); err != nil || at != schemas.MillisOf(want) {
			t.Errorf("%s is %s, %v", text, at, err)
		}
	}
	if _, err := later("--until", "soon", now); err == nil {
		t.Error("soon is an end")
	}
}
