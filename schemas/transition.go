package schemas

import (
	"strconv"
	"strings"

	"github.com/segmentio/ksuid"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

const eventIDLength = 27 // characters of a KSUID

// Transition is one published change of one user; see transition.proto.
type Transition struct {
	User       UserID
	From, To   State
	At         Millis
	LastSeen   Millis
	LastActive Millis
	Cause      Cause
	Device     DeviceID // 0: no device caused it
	Kinds      KindSet  // those of the present devices, with the active ones
	Visibility Visibility
	Version    Version
	Policy     string
	// LeftOut counts the user's changes since the previous transition that were not published,
	// because the user changed too often.
	LeftOut uint32
	// ErasedUntil is set with the cause Erased: when the last copy of older records is gone.
	ErasedUntil Millis
	// Name is the user's name in text mode, the zero value until it is known.
	Name Name
	// Override is what the user asks to be shown as from this transition on. From and To are what others see. Its LastSeen
	// is limited by the policy.
	Override Override
	// Denies is set with the cause AudienceSet, unless others than the user get the transition; AudienceBefore is
	// Override.Audience before it.
	Denies         Denies
	AudienceBefore Version
}

// EventID is the permanent id of the transition.
func (t *Transition) EventID() ksuid.KSUID { return EventID(t.User, t.Version, t.At) }

var transitionForm = form{last: 32, kinds: [2]protowire.Number{11, 23}, message: 31,
	texts: 1<<2 | 1<<14 | 1<<21 | 1<<22 | 1<<26 | 1<<31}

// walk lists the fields by their numbers in proto/stillhere/v1/transition.proto, but for the
// version (1) and the event id (2).
func (t *Transition) walk(c *codec) {
	number(c, 3, &t.User)
	number(c, 4, &t.From)
	number(c, 5, &t.To)
	number(c, 6, &t.At)
	number(c, 7, &t.LastSeen)
	number(c, 8, &t.LastActive)
	number(c, 9, &t.Cause)
	number(c, 10, &t.Device)
	c.kinds(11, &t.Kinds)
	c.visibility(12, &t.Visibility)
	number(c, 13, &t.Version)
	if c.reading {
		t.Policy = policy(c.text(14))
	} else {
		c.string(14, t.Policy)
	}
	number(c, 15, &t.LeftOut)
	number(c, 20, &t.ErasedUntil)
	c.name(21, &t.Name)
	c.activeKinds(23, &t.Kinds)
	t.Override.walk(c, 24)
	c.denies(31, &t.Denies)
	number(c, 32, &t.AudienceBefore)
}

// Encode is the value of the transition's record. Its key is User.Key().
func (t *Transition) Encode() []byte { return t.Append(make([]byte, 0, 128)) }

// Append appends what Encode returns to dst.
func (t *Transition) Append(dst []byte) []byte {
	dst = appendColumn(appendVarint(dst, 1, messageVersion), 2, eventIDLength)
	c := codec{dst: t.EventID().Append(dst)}
	t.walk(&c)
	return c.dst
}

// DecodeTransition reads a record of the transitions topic. Every error is a
// *FieldError.
func DecodeTransition(value []byte) (*Transition, error) {
	t := new(Transition)
	if err := t.Decode(value); err != nil {
		return nil, err
	}
	return t, nil
}

// Decode is DecodeTransition into t, whose previous content it replaces. It does not allocate for
// what a Protobuf writer normally produces. After an error t must not be used.
func (t *Transition) Decode(value []byte) error {
	_, err := t.Scan(value)
	return err
}

// Scan is Decode that also returns the event id as written, which may alias value.
func (t *Transition) Scan(value []byte) (event []byte, err error) {
	var c codec
	if err := c.read(&transitionForm, value, "transition", func() proto.Message { return &pb.Transition{} }); err != nil {
		return nil, err
	}
	t.walk(&c)
	return c.text(2), t.check()
}

// check holds t to the rules of transition.proto.
func (t *Transition) check() error {
	switch {
	case t.User < 1:
		return invalidUser("user_id")
	case t.Version < 1:
		return Invalid("version", "must be positive")
	case t.At < 1 || t.At > maxMillis:
		return Invalid("at_ms", millisRange)
	case t.LastSeen < 0 || t.LastSeen > maxMillis:
		return Invalid("last_seen_at_ms", millisRange)
	case t.LastActive < 0 || t.LastActive > maxMillis:
		return Invalid("last_active_at_ms", millisRange)
	case strings.ContainsRune(t.Policy, 0):
		return Invalid("policy_id", "must not contain the character 0, which databases refuse")
	case t.From < Offline || t.From > Online:
		return Invalid("from", "unknown state "+strconv.Itoa(int(t.From)))
	case t.To < Offline || t.To > Online:
		return Invalid("to", "unknown state "+strconv.Itoa(int(t.To)))
	case t.Denies != "" && t.Cause != AudienceSet:
		return Invalid("denies", "goes with the cause AUDIENCE")
	case t.Denies != "" && (t.AudienceBefore < 0 || t.Override.Audience <= t.AudienceBefore):
		return Invalid("audience_version_before", "must be below audience_version")
	case t.Cause == Erased && (t.ErasedUntil < 1 || t.ErasedUntil > maxMillis):
		return Invalid("erased_until_ms", millisRange)
	}
	if err := t.Override.checkPublished(); err != nil {
		return err
	}
	if t.Denies != "" {
		if err := t.Denies.check("denies", t.User); err != nil {
			return err
		}
	}
	return t.Name.checkOptional()
}

// message is t as a part of another message.
func (t *Transition) message() *pb.Transition {
	m := new(pb.Transition)
	if err := proto.Unmarshal(t.Encode(), m); err != nil {
		panic(err) // it is what Decode accepts
	}
	return m
}

// transitionOf reads m, which is in the named field of another message.
func transitionOf(field string, m *pb.Transition) (*Transition, error) {
	if m == nil {
		return nil, Invalid(field, "is missing")
	}
	if err := supported(m.Schema); err != nil {
		return nil, err
	}
	t := &Transition{
		User: UserID(m.UserId), From: m.From, To: m.To, At: Millis(m.AtMs),
		LastSeen: Millis(m.LastSeenAtMs), LastActive: Millis(m.LastActiveAtMs), Cause: m.Cause,
		Device: DeviceID(m.DeviceId), Kinds: SetOfKinds(m.DeviceKinds...).WithActiveOf(SetOfKinds(m.ActiveKinds...)),
		Visibility: KnownVisibility(m.Visibility), Version: Version(m.Version), Policy: m.PolicyId, LeftOut: m.LeftOut,
		ErasedUntil: Millis(m.ErasedUntilMs), Name: Name{m.Tenant, m.Name},
		Override: Override{m.Override, Millis(m.OverrideUntilMs), m.OverrideNote, m.Automatic, m.OverrideHides, m.LastSeen,
			Version(m.AudienceVersion)}, AudienceBefore: Version(m.AudienceVersionBefore),
	}
	if m.Denies != nil {
		t.Denies = canonicalDenies(m.Denies)
	}
	return t, t.check()
}
