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
	Kinds      KindSet
	Visibility Visibility
	Version    Version
	Policy     string
	// LeftOut counts the changes of the user since the transition before that were
	// not published, because the user changed too often.
	LeftOut uint32
}

// EventID names the transition for ever.
func (t *Transition) EventID() ksuid.KSUID { return EventID(t.User, t.Version, t.At) }

// Numbers of the fields of Transition in proto/stillhere/v1/transition.proto.
const (
	transitionSchema protowire.Number = iota + 1
	transitionEventID
	transitionUserID
	transitionFrom
	transitionTo
	transitionAt
	transitionLastSeen
	transitionLastActive
	transitionCause
	transitionDevice
	transitionKinds
	transitionVisibility
	transitionVersion
	transitionPolicyID
	transitionLeftOut
)

// Encode is the value of the transition's record. Its key is User.Key().
func (t *Transition) Encode() []byte { return t.Append(make([]byte, 0, 128)) }

// Append appends what Encode returns to dst.
func (t *Transition) Append(dst []byte) []byte {
	dst = appendVarint(dst, transitionSchema, messageVersion)
	dst = protowire.AppendTag(dst, transitionEventID, protowire.BytesType)
	dst = append(dst, eventIDLength)
	dst = t.EventID().Append(dst)
	dst = appendNumber(dst, transitionUserID, int64(t.User))
	dst = appendNumber(dst, transitionFrom, int64(t.From))
	dst = appendNumber(dst, transitionTo, int64(t.To))
	dst = appendNumber(dst, transitionAt, int64(t.At))
	dst = appendNumber(dst, transitionLastSeen, int64(t.LastSeen))
	dst = appendNumber(dst, transitionLastActive, int64(t.LastActive))
	dst = appendNumber(dst, transitionCause, int64(t.Cause))
	dst = appendNumber(dst, transitionDevice, int64(t.Device))
	dst = appendKinds(dst, transitionKinds, t.Kinds)
	dst = appendNumber(dst, transitionVisibility, int64(KnownVisibility(t.Visibility)))
	dst = appendNumber(dst, transitionVersion, int64(t.Version))
	if t.Policy != "" {
		dst = protowire.AppendTag(dst, transitionPolicyID, protowire.BytesType)
		dst = protowire.AppendString(dst, t.Policy)
	}
	return appendNumber(dst, transitionLeftOut, int64(t.LeftOut))
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

// Decode is DecodeTransition into t, whose previous content is lost. It allocates
// nothing for what a Protobuf writer normally produces. On any error t must not be
// used.
func (t *Transition) Decode(value []byte) error {
	_, err := t.Scan(value)
	return err
}

// Scan is Decode that returns the event id as it is written, too. That may point
// into value.
func (t *Transition) Scan(value []byte) (event []byte, err error) {
	var f fields
	if err := f.read(&transitionForm, value, "transition", func() proto.Message { return &pb.Transition{} }); err != nil {
		return nil, err
	}
	if err := supported(f.number[transitionSchema]); err != nil {
		return nil, err
	}
	*t = Transition{
		User: UserID(f.number[transitionUserID]), From: State(f.number[transitionFrom]), To: State(f.number[transitionTo]),
		At: Millis(f.number[transitionAt]), LastSeen: Millis(f.number[transitionLastSeen]),
		LastActive: Millis(f.number[transitionLastActive]), Cause: Cause(f.number[transitionCause]),
		Device: DeviceID(f.number[transitionDevice]), Kinds: f.kinds,
		Visibility: KnownVisibility(Visibility(f.number[transitionVisibility])), Version: Version(f.number[transitionVersion]),
		Policy: policy(f.text[transitionPolicyID]), LeftOut: uint32(f.number[transitionLeftOut]),
	}
	return f.text[transitionEventID], t.check()
}

// check holds t to the rules of transition.proto.
func (t *Transition) check() error {
	switch {
	case t.User < 1:
		return &FieldError{Code: "invalid_user_id", Field: "user_id", Reason: userIDRange}
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
	}
	return nil
}

// message is t as a part of another message.
func (t *Transition) message() *pb.Transition {
	return &pb.Transition{
		Schema: messageVersion, EventId: t.EventID().String(), UserId: int64(t.User),
		From: t.From, To: t.To, AtMs: int64(t.At), LastSeenAtMs: int64(t.LastSeen), LastActiveAtMs: int64(t.LastActive),
		Cause: t.Cause, DeviceId: uint32(t.Device), DeviceKinds: t.Kinds.Append(nil), Visibility: KnownVisibility(t.Visibility),
		Version: int64(t.Version), PolicyId: t.Policy, LeftOut: t.LeftOut,
	}
}

// transitionOf reads m, which stands in field of another message.
func transitionOf(field string, m *pb.Transition) (*Transition, error) {
	if m == nil {
		return nil, Invalid(field, "is missing")
	}
	if err := supported(uint64(m.Schema)); err != nil {
		return nil, err
	}
	t := &Transition{
		User: UserID(m.UserId), From: m.From, To: m.To, At: Millis(m.AtMs),
		LastSeen: Millis(m.LastSeenAtMs), LastActive: Millis(m.LastActiveAtMs), Cause: m.Cause, Device: DeviceID(m.DeviceId),
		Kinds: SetOfKinds(m.DeviceKinds...), Visibility: KnownVisibility(m.Visibility), Version: Version(m.Version), Policy: m.PolicyId,
		LeftOut: m.LeftOut,
	}
	return t, t.check()
}
