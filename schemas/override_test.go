package schemas

import "testing"

func TestOverridesAreStoredAsTheyAre(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Override{
		"": {},
		`{"state":"dnd","until":"2025-11-21T04:40:00.001Z","note":"\"à table\""}`: {State: DoNotDisturb, Until: 1_763_700_000_001, Note: `"à table"`},
		`{"state":"away","automatic":"offline"}`:                                  {State: SetAway, Automatic: Offline},
		`{"state":"invisible","hides":true}`:                                      {State: Invisible, Hides: true},
		`{"last_seen":"never"}`:                                                   {LastSeen: SeenNever},
		`{"state":"dnd","last_seen":"coarse"}`:                                    {State: DoNotDisturb, LastSeen: SeenCoarsely},
		`{"audience":"9223372036854775807"}`:                                      {Audience: 1<<63 - 1},
	} {
		if got, err := OverrideOf(o.Text()); o.Text() != want || err != nil || got != o {
			t.Errorf("%+v is stored as %s and read as %+v, %v", o, o.Text(), got, err)
		}
	}
	for _, text := range []string{"x", `{"state":"busy"}`, `{"state":"away","automatic":"asleep"}`, `{"state":"dnd","until":"soon"}`, `{"last_seen":"rarely"}`} {
		if o, err := OverrideOf(text); err == nil {
			t.Errorf("%s is read as %+v", text, o)
		}
	}
}

func TestOthersLearnOfAnOverrideOnlyWhoDoesNotWantToBeDisturbed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cause, seen Cause
		over, left  Override
	}{
		"none":             {Idle, Idle, Override{}, Override{}},
		"dnd":              {OverrideSet, OverrideSet, Override{State: DoNotDisturb, Until: 7, Note: "n"}, Override{State: DoNotDisturb}},
		"set away":         {OverrideSet, OverrideSet, Override{State: SetAway, Automatic: Online}, Override{}},
		"comes, set away":  {ActiveAgain, DevicesChanged, Override{State: SetAway, Automatic: Online}, Override{}},
		"shows, set away":  {VisibilityChange, VisibilityChange, Override{State: SetAway, Automatic: Online}, Override{}},
		"denies, set away": {AudienceSet, AudienceSet, Override{State: SetAway, Automatic: Online, Audience: 7}, Override{Audience: 7}},
		"coarse, set away": {LastSeenSet, LastSeenSet, Override{State: SetAway, Automatic: Online, LastSeen: SeenCoarsely}, Override{LastSeen: SeenCoarsely}},
	} {
		tr := Transition{From: Away, To: Away, Cause: c.cause, Override: c.over}
		if tr.HideOverride(); tr.Cause != c.seen || tr.Override != c.left {
			t.Errorf("%s: others see %+v", name, tr)
		}
	}
}
