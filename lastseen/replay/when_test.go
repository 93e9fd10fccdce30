package replay

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stillhere/stillhere/schemas"
)

var now = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestInstantsAreReadAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ zone, text, want string }{
		{"UTC", "2026-11-20T10:00:00Z", "2026-11-20T10:00:00.000Z"},
		{"Europe/Berlin", "2026-11-20T10:00:00.123+05:30", "2026-11-20T04:30:00.123Z"},
		{"UTC", "2026-11-20T10:00", "2026-11-20T10:00:00.000Z"},
		{"Europe/Berlin", "2026-11-20 10:00:30", "2026-11-20T09:00:30.000Z"},
		{"UTC", "now", "2026-11-21T09:30:00.000Z"},
		{"UTC", "-90m", "2026-11-21T08:00:00.000Z"},
		{"UTC", "-7d", "2026-11-14T09:30:00.000Z"},
		{"UTC", "10m ago", "2026-11-21T09:20:00.000Z"},
		{"UTC", "1.5d ago", "2026-11-19T21:30:00.000Z"},
		{"Europe/Berlin", "1795168800123", "2026-11-20T10:00:00.123Z"},
		// Month ends, a leap day, a month.
		{"UTC", "2026-01-31", "2026-01-31T00:00:00.000Z"},
		{"UTC", "2028-02-29", "2028-02-29T00:00:00.000Z"},
		{"UTC", "2026-03", "2026-03-01T00:00:00.000Z"},
		{"Asia/Tokyo", "2026-03", "2026-02-28T15:00:00.000Z"},
		{"America/New_York", "2026-12-31", "2026-12-31T05:00:00.000Z"},
		// The day on which summer time begins has 23 hours in Berlin, the one on which it ends 25.
		{"Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00.000Z"},
		{"Europe/Berlin", "2026-03-30", "2026-03-29T22:00:00.000Z"},
		{"Europe/Berlin", "2026-10-25", "2026-10-24T22:00:00.000Z"},
		{"Europe/Berlin", "2026-10-26", "2026-10-25T23:00:00.000Z"},
		{"Europe/Berlin", "2026-03-29T01:59:59", "2026-03-29T00:59:59.000Z"},
		{"Europe/Berlin", "2026-03-29T03:00", "2026-03-29T01:00:00.000Z"},
		{"Europe/Berlin", "2026-10-25T03:00", "2026-10-25T02:00:00.000Z"},
		// Half an hour, and a midnight that is skipped: the day begins at one.
		{"Australia/Lord_Howe", "2026-10-04T02:30", "2026-10-03T15:30:00.000Z"},
		{"Africa/Cairo", "2026-04-24", "2026-04-23T22:00:00.000Z"},
		{"Asia/Kolkata", "2026-11-20", "2026-11-19T18:30:00.000Z"},
	} {
		got, err := ParseInstant("from", c.text, zone(t, c.zone), now)
		if err != nil || got.String() != c.want {
			t.Errorf("%s in %s is %s (%v), want %s", c.text, c.zone, got, err, c.want)
		}
	}
}

func TestTimesThatClocksSkipOrShowTwiceAreRefusedWithWhatToSay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ zone, text, want string }{
		{"Europe/Berlin", "2026-03-29T02:30", "never was in Europe/Berlin"},
		{"Europe/Berlin", "2026-10-25T02:30", "say 2026-10-25T02:30:00+02:00 or 2026-10-25T02:30:00+01:00"},
		{"Australia/Lord_Howe", "2026-04-05T01:45", "was twice"},
		{"UTC", "2026-02-30", "is no time"},
		{"UTC", "2026-02-29", "is no time"},
		{"UTC", "yesterday", "is no time"},
		{"UTC", "-7x", "is no length of time"},
		{"UTC", "1969-12-31", "after 1970"},
		{"UTC", "", "is no time"},
	} {
		_, err := ParseInstant("--from", c.text, zone(t, c.zone), now)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "--from: ") || !schemas.IsInvalid(err) {
			t.Errorf("%s in %s: error %v, want one about --from with %q", c.text, c.zone, err, c.want)
		}
	}
}

func TestEveryInstantOfTheClockOfAYearIsReadBackOrRefused(t *testing.T) {
	t.Parallel()
	berlin := zone(t, "Europe/Berlin")
	refused := 0
	for at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() == 2026; at = at.Add(10 * time.Minute) {
		text := at.In(berlin).Format("2006-01-02T15:04")
		got, err := ParseInstant("from", text, berlin, now)
		switch {
		case err != nil:
			refused++
		case got != schemas.MillisOf(at):
			t.Fatalf("%s is %s, want %s", text, got, at)
		}
	}
	if refused != 12 { // two hours in steps of ten minutes
		t.Errorf("%d refused, want 12", refused)
	}
}
