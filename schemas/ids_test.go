package schemas

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAUserComesBackFromItsKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		user := UserID(rapid.Int64Range(1, maxUserID).Draw(t, "user"))
		got, err := UserOfKey(user.Key())
		if err != nil || got != user {
			t.Fatalf("user %d comes back as %d, %v", user, got, err)
		}
	})
	if got := string(UserID(258).Key()); got != "\x00\x00\x00\x00\x00\x00\x01\x02" {
		t.Errorf("the key of 258 is %x", got)
	}
}

func TestAKeyThatIsNoUserIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "1", "1234567", "123456789", "\x00\x00\x00\x00\x00\x00\x00\x00", "\x80\x00\x00\x00\x00\x00\x00\x00", "\xff\xff\xff\xff\xff\xff\xff\xff"} {
		if _, err := UserOfKey([]byte(key)); !IsInvalid(err) {
			t.Errorf("key %x: error %v", key, err)
		}
	}
}

func TestIDsOutOfRangeAreRefusedWithTheFieldNamed(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "0", "-1", "9223372036854775808", "abc", "1.0", " 1", "+1", "01"} {
		_, err := ParseUserID("beats[3].user_id", text)
		const want = "beats[3].user_id: must be between 1 and 9223372036854775807"
		if err == nil || err.Error() != want {
			t.Errorf("user id %q: error %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "4294967296", "abc", "+1", "01"} {
		_, err := ParseDeviceID("device_id", text)
		const want = "device_id: must be between 1 and 4294967295"
		if err == nil || err.Error() != want {
			t.Errorf("device id %q: error %v, want %s", text, err, want)
		}
	}
	if id, err := ParseUserID("", "9223372036854775807"); err != nil || id != maxUserID {
		t.Errorf("the greatest user id is %d, %v", id, err)
	}
	if id, err := ParseDeviceID("", "4294967295"); err != nil || id != maxDeviceID {
		t.Errorf("the greatest device id is %d, %v", id, err)
	}
}

func TestTimesAreRFC3339WithMillisecondsInJSON(t *testing.T) {
	t.Parallel()
	for text, at := range map[string]Millis{
		`"2025-11-21T04:40:00.000Z"`: 1_763_700_000_000,
		`"2025-11-21T04:40:00.007Z"`: 1_763_700_000_007,
		`"1970-01-01T00:00:00.001Z"`: 1,
		`null`:                       0,
	} {
		got, err := json.Marshal(at)
		if err != nil || string(got) != text {
			t.Errorf("%d is written as %s, %v; want %s", at, got, err, text)
		}
		var back Millis
		if err := json.Unmarshal([]byte(text), &back); err != nil || back != at {
			t.Errorf("%s is read as %d, %v; want %d", text, back, err, at)
		}
	}
	var at Millis
	if err := json.Unmarshal([]byte(`"2025-11-21T05:40:00+01:00"`), &at); err != nil || at != 1_763_700_000_000 {
		t.Errorf("another zone is read as %d, %v", at, err)
	}
	if err := json.Unmarshal([]byte(`"yesterday"`), &at); err == nil {
		t.Error("yesterday is read as a time")
	}
}

func TestNeverIsTheZeroTime(t *testing.T) {
	t.Parallel()
	if !Millis(0).Time().IsZero() || Millis(0).String() != "never" {
		t.Errorf("never is %v, %s", Millis(0).Time(), Millis(0))
	}
	at := time.Date(2025, 11, 21, 4, 40, 0, 7_999_999, time.UTC)
	if got := MillisOf(at).Time(); !got.Equal(at.Truncate(time.Millisecond)) {
		t.Errorf("%v becomes %v", at, got)
	}
}
