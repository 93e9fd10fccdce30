package schemas

import (
	"maps"
	"slices"
	"testing"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

func TestEveryValueOfEveryEnumerationHasAWordThatReadsBack(t *testing.T) {
	t.Parallel()
	checkWords(t, pb.State_name, StateWord, ParseState)
	checkWords(t, pb.Cause_name, CauseWord, ParseCause)
	checkWords(t, pb.DeviceKind_name, KindWord, ParseKind)
	checkWords(t, pb.Visibility_name, VisibilityWord, ParseVisibility)
	checkWords(t, pb.LastSeen_name, LastSeenWord, func(field, text string) (LastSeen, error) {
		if text == "policy" { // nobody may choose it
			o, err := OverrideOf(`{"last_seen":"policy"}`)
			return o.LastSeen, err
		}
		return ParseLastSeen(field, text)
	})
	if s, err := ParseLastSeen("x", "policy"); !IsInvalid(err) {
		t.Errorf("the policy is chosen: %v", s)
	}
}

func checkWords[T ~int32](t *testing.T, names map[int32]string, word func(T) string, parse func(field, text string) (T, error)) {
	t.Helper()
	seen := map[string]bool{}
	for number, name := range names {
		if number == 0 {
			continue
		}
		text := word(T(number))
		if seen[text] || text == "unspecified" {
			t.Errorf("%s has the word %q", name, text)
		}
		seen[text] = true
		if back, err := parse("x", text); err != nil || back != T(number) {
			t.Errorf("%q reads back as %d, %v", text, back, err)
		}
	}
	if _, err := parse("the_field", "nonsense"); !IsInvalid(err) {
		t.Errorf("nonsense is read, error %v", err)
	}
}

func TestAKindFromTheFutureIsOther(t *testing.T) {
	t.Parallel()
	for _, kind := range []DeviceKind{0, -1, DeviceKind(len(Kinds)) + 1, 1 << 30} {
		if KnownKind(kind) != Other || KindWord(kind) != "other" || SetOfKinds(kind) != SetOfKinds(Other) {
			t.Errorf("kind %d is not read as other", kind)
		}
	}
}

func TestASetOfKindsIsAscendingAndHasEachOnce(t *testing.T) {
	t.Parallel()
	set := SetOfKinds(Web, Mobile, Web, Other)
	if got := set.Append(nil); !slices.Equal(got, []DeviceKind{Mobile, Web, Other}) || set.Len() != 3 {
		t.Errorf("is %v of length %d", got, set.Len())
	}
	if got := set.Words(); !slices.Equal(got, []string{"mobile", "web", "other"}) {
		t.Errorf("in words %v", got)
	}
	if KindSet(0).Words() == nil || KindSet(0).States() == nil {
		t.Error("the empty set is null in JSON")
	}
}

func TestOnlyPresentKindsAreActive(t *testing.T) {
	t.Parallel()
	set := SetOfKinds(Mobile, Desktop, Web).WithActiveOf(SetOfKinds(Desktop, Other))
	want := KindStates{"mobile": "away", "desktop": "online", "web": "away"}
	if states := set.States(); !maps.Equal(states, want) || !slices.Equal(states.Active(), []string{"desktop"}) ||
		!slices.Equal(states.Shown(), []string{"mobile (away)", "desktop", "web (away)"}) {
		t.Errorf("are %v, of which %v are active, shown as %v", states, states.Active(), states.Shown())
	}
	if all := set.As(Online); all != SetOfKinds(Mobile, Desktop, Web).WithActiveOf(SetOfKinds(Kinds[:]...)) || all.As(Away) != set.Present() {
		t.Errorf("as a whole %b and %b", all, all.As(Away))
	}
	if away := set.As(Away).States().Shown(); !slices.Equal(away, []string{"mobile", "desktop", "web"}) {
		t.Errorf("without an active one %v", away)
	}
}
