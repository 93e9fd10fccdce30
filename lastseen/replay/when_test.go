package replay

import (
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

var now = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

func TestInstantsAreReadAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"2026-11-20T10:00:00Z", "2026-11-20T10:00:00.000Z"},
		{"2026-11-20T10:00:00.123+05:30", "2026-11-20T04:30:00.123Z"},
		{"2026-11-20T10:00", "2026-11-20T10:00:00.000Z"},
		{"2026-11-20 10:00:30", "2026-11-20T10:00:30.000Z"},
		{"now", "2026-11-21T09:30:00.000Z"},
		{"-90m", "2026-11-21T08:00:00.000Z"},
		{"-7d", "2026-11-14T09:30:00.000Z"},
		{"10m ago", "2026-11-21T09:20:00.000Z"},
		{"1.5d ago", "2026-11-19T21:30:00.000Z"},
		{"1795168800123", "2026-11-20T10:00:00.123Z"},
		// Month ends, a leap day, a month.
		{"2026-01-31", "2026-01-31T00:00:00.000Z"},
		{"2028-02-29", "2028-02-29T00:00:00.000Z"},
		{"2026-03", "2026-03-01T00:00:00.000Z"},
	} {
		got, err := ParseInstant("from", c.text, now)
		if err != nil || got.String() != c.want {
			t.Errorf("%s is %s (%v), want %s", c.text, got, err, c.want)
		}
	}
}

func TestTimesThatNeverWereAreRefusedWithWhatToSay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"2026-02-30", "is no time"},
		{"2026-02-29", "is no time"},
		{"yesterday", "is no time"},
		{"-7x", "is no length of time"},
		{"1969-12-31", "after 1970"},
		{"", "is no time"},
	} {
		_, err := ParseInstant("--from", c.text, now)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "--from: ") || !schemas.IsInvalid(err) {
			t.Errorf("%s: error %v, want one about --from with %q", c.text, err, c.want)
		}
	}
}
