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
//	2026-11-20T10:00, "2026-11-20 10:00:30"          in UTC
//	2026-11-20, 2026-11                              the first moment of the day or month in UTC
//	-90m, -36h, -7d, "90m ago"                       before now; a day is 24 hours
//	1795168800000                                    Unix milliseconds
//	now
func ParseInstant(field, text string, now time.Time) (schemas.Millis, error) {
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
	for _, layout := range []string{
		time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00",
		"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly, "2006-01",
	} {
		if t, err := time.Parse(layout, text); err == nil {
			return checked(field, text, t)
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
