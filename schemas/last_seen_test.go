package schemas

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func at(text string) Millis {
	t, err := time.Parse("2006-01-02T15:04:05.000", text)
	if err != nil {
		panic(err)
	}
	return MillisOf(t)
}

func TestOthersLearnOfADayAndNotOfAnInstant(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ seen, from, until, word string }{ // the first and the last instant of each word
		{"2026-11-10T00:00:00.000", "2026-11-10T00:00:00.000", "2026-11-12T23:59:59.999", "recently"},
		{"2026-11-10T23:59:59.999", "2026-11-10T23:59:59.999", "2026-11-12T23:59:59.999", "recently"},
		{"2026-11-10T12:00:00.000", "2026-11-13T00:00:00.000", "2026-11-17T23:59:59.999", "within_a_week"},
		{"2026-11-10T23:59:59.999", "2026-11-18T00:00:00.000", "2026-12-10T23:59:59.999", "within_a_month"},
		{"2026-11-10T00:00:00.000", "2026-12-11T00:00:00.000", "2049-01-01T00:00:00.000", "long_ago"},
		{"2028-02-27T08:00:00.000", "2028-02-27T08:00:00.000", "2028-02-29T23:59:59.999", "recently"}, // a leap year
		{"2028-02-27T08:00:00.000", "2028-03-01T00:00:00.000", "2028-03-05T23:59:59.999", "within_a_week"},
		{"2028-01-30T08:00:00.000", "2028-02-07T00:00:00.000", "2028-02-29T23:59:59.999", "within_a_month"},
		{"2028-01-30T08:00:00.000", "2028-03-01T00:00:00.000", "2028-03-01T00:00:00.000", "long_ago"},
		{"2027-12-30T08:00:00.000", "2028-01-02T00:00:00.000", "2028-01-06T23:59:59.999", "within_a_week"}, // the turn of a year
		{"2026-11-10T00:00:01.000", "2026-11-09T23:59:59.000", "2026-11-09T23:59:59.000", "recently"},      // a clock is behind
	} {
		over := Override{LastSeen: SeenCoarsely}
		for _, now := range []Millis{at(c.from), at(c.until)} {
			if seen, active, word := over.Learned(Offline, at(c.seen), at(c.seen), now); seen != 0 || active != 0 || word != c.word {
				t.Errorf("%s seen on %s: %s, %s, %q; want %q", now, c.seen, seen, active, word, c.word)
			}
		}
	}
}

func TestWhatOthersLearnFollowsFromTheChoiceAndTheState(t *testing.T) {
	t.Parallel()
	const seen, active, now = 40 * dayMillis, 39 * dayMillis, 90 * dayMillis
	for _, c := range []struct {
		choice       LastSeen
		state        State
		seen         Millis
		learned, did Millis
		word         string
		sinceShown   bool
	}{
		{0, Offline, seen, seen, active, "", true},
		{0, Online, seen, seen, active, "", true},
		{SeenCoarsely, Offline, seen, 0, 0, "long_ago", false},
		{SeenCoarsely, Away, seen, 0, 0, "recently", false},
		{SeenCoarsely, Online, seen, 0, 0, "recently", true},
		{SeenCoarsely, Offline, 0, 0, 0, "long_ago", false},
		{SeenNever, Offline, seen, 0, 0, "hidden", false},
		{SeenNever, Away, seen, 0, 0, "hidden", false},
		{SeenNever, Online, seen, 0, 0, "hidden", true},
		{SeenNever, Offline, 0, 0, 0, "hidden", false},
	} {
		user := Current{User: 1, State: c.state, Since: 5, LastSeen: c.seen, LastActive: active, Version: 7, Override: Override{LastSeen: c.choice}}
		p := PresenceOf(user, 0, now)
		if p.LastSeenAt != c.learned || p.LastActiveAt != c.did || p.LastSeen != c.word {
			t.Errorf("%s, %s: others learn %s, %s, %q", LastSeenWord(c.choice), StateWord(c.state), p.LastSeenAt, p.LastActiveAt, p.LastSeen)
		}
		if (p.Since != 0) != c.sinceShown {
			t.Errorf("%s, %s: since %s", LastSeenWord(c.choice), StateWord(c.state), p.Since)
		}
		if user.Visibility = Nobody; PresenceOf(user, 0, now).LastSeen != "" {
			t.Errorf("%s, %s: others learn something of a hidden user", LastSeenWord(c.choice), StateWord(c.state))
		}
		n := notice()
		n.Transition = &Transition{User: 1, From: c.state, To: c.state, At: now, LastSeen: c.seen, LastActive: active, Cause: LastSeenSet,
			Visibility: Everyone, Version: 7, Override: user.Override}
		for _, recipients := range [][]string{{"1"}, nil} {
			n.Recipients = recipients
			var m TransitionMessage
			body, err := n.Body()
			if err == nil {
				err = json.Unmarshal(body, &m)
			}
			if c.seen == 0 && c.choice == SeenCoarsely { // what a transition does not say, the stores may know
				c.word = ""
			}
			if err != nil || m.LastSeenAt != c.learned || m.LastActiveAt != c.did || m.LastSeen != c.word || m.Cause != "last_seen" {
				t.Errorf("%s, %s: a message has %s, %v", LastSeenWord(c.choice), StateWord(c.state), body, err)
			}
			if strings.Contains(string(body), `"last_seen":""`) {
				t.Errorf("a message has an empty word: %s", body)
			}
		}
	}
}

func TestHiddenTimesAreThoseThatOthersDoNotLearn(t *testing.T) {
	t.Parallel()
	for choice, want := range map[LastSeen][2]Millis{
		0:            {2*dayMillis - 1, dayMillis + 5},
		SeenCoarsely: {dayMillis, 0},
		SeenNever:    {0, 0},
	} {
		tr := Transition{LastSeen: 2*dayMillis - 1, LastActive: dayMillis + 5, Override: Override{LastSeen: choice}}
		for range 2 { // hidden again, they stay
			if tr.HideTimes(); tr.LastSeen != want[0] || tr.LastActive != want[1] {
				t.Errorf("%s: %s, %s", LastSeenWord(choice), tr.LastSeen, tr.LastActive)
			}
		}
	}
}
