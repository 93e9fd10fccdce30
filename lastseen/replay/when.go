package replay

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// ParseInstant reads an instant as people write it; field names it in errors.
// now is what "now" and times before it are measured from.
//
//	2026-11-20T10:00:00.5Z, 2026-11-20T11:00+01:00   an instant
//	2026-11-20T10:00, "2026-11-20 10:00:30"          of the clocks in zone
//	2026-11-20, 2026-11                              the first moment of the day or month in zone
//	-90m, -36h, -7d, "90m ago"                       before now; a day is 24 hours
//	1795168800000                                    Unix milliseconds
//	now
//
// A time that the clocks of zone skip, or show twice, is refused: only an offset
// makes it clear. A day whose midnight is skipped begins at its first moment.
func ParseInstant(field, text string, zone *time.Location, now time.Time) (schemas.Millis, error) {
	text = strings.TrimSpace(text)
	if text == "now" {
		return schemas.MillisOf(now), nil
	}
	if past, ago := strings.CutSuffix(text, "ago"); ago {
		return before(field, text, strings.TrimSpace(past), now)
	}
	if past, minus := strings.CutPrefix(text, "-"); minus {
		return before(field, text, past, now)
	}
	if IsMillis(text) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, schemas.Invalid(field, fmt.Sprintf("%q must be after 1970 and before 10000", text))
		}
		return checked(field, text, time.UnixMilli(n))
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return checked(field, text, t)
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04"} {
		if wall, err := time.Parse(layout, text); err == nil {
			t, err := onClock(field, text, wall, zone)
			if err != nil {
				return 0, err
			}
			return checked(field, text, t)
		}
	}
	for _, layout := range []string{time.DateOnly, "2006-01"} {
		if day, err := time.Parse(layout, text); err == nil {
			return checked(field, text, startOfDay(day, zone))
		}
	}
	return 0, schemas.Invalid(field, fmt.Sprintf("%q is no time: it must be like 2026-11-20T10:00:00Z, 2026-11-20T10:00, 2026-11-20, 2026-11, -2h, -7d, 10m ago, now or Unix milliseconds", text))
}

func checked(field, text string, t time.Time) (schemas.Millis, error) {
	if t.UnixMilli() < 1 || t.Year() > 9999 {
		return 0, schemas.Invalid(field, fmt.Sprintf("%q must be after 1970 and before 10000", text))
	}
	return schemas.MillisOf(t), nil
}

// millisDigits is how many digits Unix milliseconds have at least: those of 1973. Fewer are an offset of a topic, a
// year or a slip.
const millisDigits = 12

// IsMillis reports whether text is Unix milliseconds.
func IsMillis(text string) bool {
	return len(text) >= millisDigits && strings.Trim(text, "0123456789") == ""
}

// before reads past, a length of time back from now.
func before(field, text, past string, now time.Time) (schemas.Millis, error) {
	if days, isDays := strings.CutSuffix(past, "d"); isDays {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n >= 0 && n < 100_000 {
			return checked(field, text, now.Add(-time.Duration(n*24*float64(time.Hour))))
		}
	} else if d, err := time.ParseDuration(past); err == nil && d >= 0 {
		return checked(field, text, now.Add(-d))
	}
	return 0, schemas.Invalid(field, fmt.Sprintf("%q is no length of time: it must be like -90m, -36h, -7d or 90m ago", text))
}

// onClock is when the clocks of zone show wall, a time read as if in UTC.
func onClock(field, text string, wall time.Time, zone *time.Location) (time.Time, error) {
	at := instantsOf(wall, zone)
	switch len(at) {
	case 0:
		return time.Time{}, schemas.Invalid(field, fmt.Sprintf("%q never was in %s, where the clocks were put forward over it: say it with an offset, as in %s",
			text, zone, wall.Format("2006-01-02T15:04:05")+wall.Add(-24*time.Hour).In(zone).Format("Z07:00")))
	case 1:
		return at[0], nil
	}
	return time.Time{}, schemas.Invalid(field, fmt.Sprintf("%q was twice in %s, where the clocks were put back: say %s or %s",
		text, zone, at[0].Format(time.RFC3339), at[1].Format(time.RFC3339)))
}

// instantsOf are the instants at which the clocks of zone show wall: one, or none
// or two where they are changed.
func instantsOf(wall time.Time, zone *time.Location) []time.Time {
	var found []time.Time
	// Clocks are changed by less than a day, so one of these offsets is in force.
	for _, near := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		_, offset := wall.Add(near).In(zone).Zone()
		t := wall.Add(-time.Duration(offset) * time.Second).In(zone)
		if t.Format("2006-01-02T15:04:05.999999999") != wall.Format("2006-01-02T15:04:05.999999999") {
			continue
		}
		if len(found) == 0 || !found[0].Equal(t) {
			found = append(found, t)
		}
	}
	return found
}

// startOfDay is the first moment of a day in zone, which is mostly midnight. Of two
// midnights it is the first.
func startOfDay(day time.Time, zone *time.Location) time.Time {
	for wall := day; wall.Before(day.Add(24 * time.Hour)); wall = wall.Add(time.Minute) {
		if at := instantsOf(wall, zone); len(at) > 0 {
			return at[0]
		}
	}
	// A day that was left out altogether, as when a country crosses the date line.
	return time.Date(day.Year(), day.Month(), day.Day(), 0, 0, 0, 0, zone)
}
