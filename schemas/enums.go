package schemas

import (
	"math/bits"
	"slices"
	"strings"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// The enumerations of the wire, under names that read well in Go.
type (
	State      = pb.State
	Cause      = pb.Cause
	DeviceKind = pb.DeviceKind
	Visibility = pb.Visibility
	// OverrideState is what a user asks to be shown as; 0: nothing.
	OverrideState = pb.OverrideState
	// LastSeen is what others learn of when a user who is not online was last here.
	LastSeen = pb.LastSeen
)

const (
	Offline = pb.State_STATE_OFFLINE
	Away    = pb.State_STATE_AWAY
	Online  = pb.State_STATE_ONLINE

	FirstBeat        = pb.Cause_CAUSE_FIRST_BEAT
	ActiveAgain      = pb.Cause_CAUSE_ACTIVE_AGAIN
	Idle             = pb.Cause_CAUSE_IDLE
	Silent           = pb.Cause_CAUSE_SILENT
	Bye              = pb.Cause_CAUSE_BYE
	GatewayLost      = pb.Cause_CAUSE_GATEWAY_LOST
	DevicesChanged   = pb.Cause_CAUSE_DEVICES
	VisibilityChange = pb.Cause_CAUSE_VISIBILITY
	GatewayDrained   = pb.Cause_CAUSE_GATEWAY_DRAINED
	DeviceEvicted    = pb.Cause_CAUSE_DEVICE_EVICTED
	Erased           = pb.Cause_CAUSE_ERASED
	OverrideSet      = pb.Cause_CAUSE_OVERRIDE_SET
	OverrideOver     = pb.Cause_CAUSE_OVERRIDE_OVER
	LastSeenSet      = pb.Cause_CAUSE_LAST_SEEN
	AudienceSet      = pb.Cause_CAUSE_AUDIENCE

	Mobile  = pb.DeviceKind_DEVICE_KIND_MOBILE
	Desktop = pb.DeviceKind_DEVICE_KIND_DESKTOP
	Web     = pb.DeviceKind_DEVICE_KIND_WEB
	Bot     = pb.DeviceKind_DEVICE_KIND_BOT
	Other   = pb.DeviceKind_DEVICE_KIND_OTHER

	Everyone = pb.Visibility_VISIBILITY_EVERYONE
	Nobody   = pb.Visibility_VISIBILITY_NOBODY

	DoNotDisturb = pb.OverrideState_OVERRIDE_STATE_DND
	SetAway      = pb.OverrideState_OVERRIDE_STATE_AWAY
	Invisible    = pb.OverrideState_OVERRIDE_STATE_INVISIBLE

	SeenByPolicy = pb.LastSeen_LAST_SEEN_POLICY
	SeenCoarsely = pb.LastSeen_LAST_SEEN_COARSE
	SeenNever    = pb.LastSeen_LAST_SEEN_NEVER
	SeenExactly  = pb.LastSeen_LAST_SEEN_EXACT
)

// States, Causes and Kinds are all there are, in the order of their numbers. The numbers of
// Kinds begin at 1 and have no gap.
var (
	States = [...]State{Offline, Away, Online}
	Causes = [...]Cause{FirstBeat, ActiveAgain, Idle, Silent, Bye, GatewayLost, DevicesChanged, VisibilityChange,
		GatewayDrained, DeviceEvicted, Erased, OverrideSet, OverrideOver, LastSeenSet, AudienceSet}
	Kinds = [...]DeviceKind{Mobile, Desktop, Web, Bot, Other}
)

// The words by which JSON, SQL and users know the values, by number.
var (
	stateWords      = wordsOf("STATE_", pb.State_name)
	causeWords      = wordsOf("CAUSE_", pb.Cause_name)
	kindWords       = wordsOf("DEVICE_KIND_", pb.DeviceKind_name)
	visibilityWords = wordsOf("VISIBILITY_", pb.Visibility_name)
	overrideWords   = wordsOf("OVERRIDE_STATE_", pb.OverrideState_name)
	lastSeenWords   = wordsOf("LAST_SEEN_", pb.LastSeen_name)
)

// wordsOf derives the words from the names in the .proto file: STATE_ONLINE becomes online.
func wordsOf(prefix string, names map[int32]string) []string {
	words := make([]string, len(names))
	for number, name := range names {
		words[number] = strings.ToLower(strings.TrimPrefix(name, prefix))
	}
	return words
}

// StateWord is "online", "away" or "offline".
func StateWord(s State) string { return wordOf(stateWords, s) }

// CauseWord is the cause in snake_case, e.g. "first_beat".
func CauseWord(c Cause) string { return wordOf(causeWords, c) }

// KindWord is the device kind in lower case, e.g. "mobile".
func KindWord(k DeviceKind) string { return wordOf(kindWords, KnownKind(k)) }

// VisibilityWord is "everyone" or "nobody".
func VisibilityWord(v Visibility) string { return wordOf(visibilityWords, KnownVisibility(v)) }

// ParseState reads what StateWord writes; field names it in the error.
func ParseState(field, text string) (State, error) { return parseWord[State](stateWords, field, text) }

// ParseCause reads what CauseWord writes; field names it in the error.
func ParseCause(field, text string) (Cause, error) { return parseWord[Cause](causeWords, field, text) }

// ParseKind reads what KindWord writes; field names it in the error.
func ParseKind(field, text string) (DeviceKind, error) {
	return parseWord[DeviceKind](kindWords, field, text)
}

// ParseVisibility reads what VisibilityWord writes; field names it in the error.
func ParseVisibility(field, text string) (Visibility, error) {
	return parseWord[Visibility](visibilityWords, field, text)
}

// KnownKind is k, or Other for a kind that this program does not know.
func KnownKind(k DeviceKind) DeviceKind {
	if k < 1 || int(k) > len(Kinds) {
		return Other
	}
	return k
}

// KnownVisibility is v, or Everyone for an unspecified visibility.
func KnownVisibility(v Visibility) Visibility {
	if v != Nobody {
		return Everyone
	}
	return Nobody
}

// KindSet is a set of device kinds, those of the present devices, and of these the active ones. Bit k is that of the
// kind k, bit activeShift + k says that it is active.
type KindSet uint16

const activeShift = 8

// A build fails here when Kinds outgrows KindSet, which databases hold as a signed number.
const _ = uint(6 - len(Kinds))

// SetOfKinds collects kinds.
func SetOfKinds(kinds ...DeviceKind) KindSet {
	var set KindSet
	for _, k := range kinds {
		set = set.With(k)
	}
	return set
}

// With is the set and k.
func (s KindSet) With(k DeviceKind) KindSet { return s | 1<<KnownKind(k) }

// Present is the set without what is active.
func (s KindSet) Present() KindSet { return s & (1<<activeShift - 1) }

// Active is the set of the active kinds, without what is active.
func (s KindSet) Active() KindSet { return s >> activeShift }

// WithActiveOf is the set, of which those kinds are active that are in active.
func (s KindSet) WithActiveOf(active KindSet) KindSet { return s.Present() | s&active<<activeShift }

// As is the set of the same kinds, all active for a user who is online, otherwise none.
func (s KindSet) As(user State) KindSet {
	if user == Online {
		return s.WithActiveOf(s)
	}
	return s.Present()
}

// Len counts the kinds in the set.
func (s KindSet) Len() int { return bits.OnesCount8(uint8(s)) }

// Append appends the kinds of the set to dst, ascending.
func (s KindSet) Append(dst []DeviceKind) []DeviceKind {
	for _, k := range Kinds {
		if s&(1<<k) != 0 {
			dst = append(dst, k)
		}
	}
	return dst
}

// Words names the kinds of the set, ascending; never nil.
func (s KindSet) Words() []string {
	words := make([]string, 0, s.Len())
	for _, k := range Kinds {
		if s&(1<<k) != 0 {
			words = append(words, KindWord(k))
		}
	}
	return words
}

// KindStates are the states of device kinds, "online" or "away", by the kinds.
type KindStates map[string]string

// States are the kinds of the set and their states; never nil.
func (s KindSet) States() KindStates {
	states := make(KindStates, s.Len())
	for _, word := range s.Words() {
		states[word] = StateWord(Away)
	}
	for _, word := range (s & s.Active()).Words() {
		states[word] = StateWord(Online)
	}
	return states
}

// Active names the kinds that are online, in the order of Kinds.
func (s KindStates) Active() (words []string) {
	for _, k := range Kinds {
		if s[KindWord(k)] == StateWord(Online) {
			words = append(words, KindWord(k))
		}
	}
	return words
}

// Shown names all kinds for people, in the order of Kinds; if some are online, it says which are not.
func (s KindStates) Shown() (words []string) {
	mixed := len(s.Active()) > 0
	for _, k := range Kinds {
		switch word := KindWord(k); {
		case s[word] == StateWord(Away) && mixed:
			words = append(words, word+" (away)")
		case s[word] != "":
			words = append(words, word)
		}
	}
	return words
}

func wordOf[T ~int32](words []string, value T) string {
	if value < 0 || int(value) >= len(words) {
		value = 0 // unspecified
	}
	return words[value]
}

func parseWord[T ~int32](words []string, field, text string) (T, error) {
	known := words[1:]
	i := slices.Index(known, text)
	if i < 0 {
		return 0, Invalid(field, "must be one of "+strings.Join(known, " "))
	}
	return T(i + 1), nil
}
