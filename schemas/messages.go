package schemas

import (
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/segmentio/ksuid"
	"google.golang.org/protobuf/proto"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// messageVersion is the version of the messages besides Frame.
const messageVersion = 1

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
}

// EventID names the transition for ever.
func (t *Transition) EventID() ksuid.KSUID { return EventID(t.User, t.Version, t.At) }

// Encode is the value of the transition's record. Its key is User.Key().
func (t *Transition) Encode() []byte { return encode(t.message()) }

func (t *Transition) message() *pb.Transition {
	return &pb.Transition{
		Schema: messageVersion, EventId: t.EventID().String(), UserId: int64(t.User),
		From: t.From, To: t.To, AtMs: int64(t.At), LastSeenAtMs: int64(t.LastSeen), LastActiveAtMs: int64(t.LastActive),
		Cause: t.Cause, DeviceId: uint32(t.Device), DeviceKinds: t.Kinds.Append(nil), Visibility: KnownVisibility(t.Visibility),
		Version: int64(t.Version), PolicyId: t.Policy,
	}
}

// DecodeTransition reads a record of the transitions topic. Every error is a
// *FieldError.
func DecodeTransition(value []byte) (*Transition, error) {
	var m pb.Transition
	if err := decode("transition", value, &m, m.GetSchema); err != nil {
		return nil, err
	}
	return transitionOf("", &m)
}

// transitionOf checks m, which stands in field of another message, or alone.
func transitionOf(field string, m *pb.Transition) (*Transition, error) {
	switch {
	case m == nil:
		return nil, Invalid(field, "is missing")
	case field != "" && m.Schema != messageVersion:
		return nil, &FieldError{Code: "unsupported_version", Field: field + ".schema",
			Reason: "is " + strconv.FormatUint(uint64(m.Schema), 10) + ", this program reads version 1"}
	case m.UserId < 1:
		return nil, &FieldError{Code: "invalid_user_id", Field: "user_id", Reason: userIDRange}
	case m.Version < 1:
		return nil, Invalid("version", "must be positive")
	case m.AtMs < 1:
		return nil, Invalid("at_ms", "must be positive")
	case m.From < Offline || m.From > Online:
		return nil, Invalid("from", "unknown state "+strconv.Itoa(int(m.From)))
	case m.To < Offline || m.To > Online:
		return nil, Invalid("to", "unknown state "+strconv.Itoa(int(m.To)))
	}
	return &Transition{
		User: UserID(m.UserId), From: m.From, To: m.To, At: Millis(m.AtMs),
		LastSeen: Millis(m.LastSeenAtMs), LastActive: Millis(m.LastActiveAtMs), Cause: m.Cause, Device: DeviceID(m.DeviceId),
		Kinds: SetOfKinds(m.DeviceKinds...), Visibility: KnownVisibility(m.Visibility), Version: Version(m.Version), Policy: m.PolicyId,
	}, nil
}

// DecodeLoggedTransition is DecodeTransition that remembers the record's place.
func DecodeLoggedTransition(r *Record) (Logged[*Transition], error) {
	t, err := DecodeTransition(r.Value)
	return Logged[*Transition]{Partition: r.Partition, Offset: r.Offset, Time: r.Time, Message: t}, err
}

// Status is what the detector must know of a user after a restart; see
// transition.proto.
type Status struct {
	User       UserID
	State      State
	Since      Millis
	LastSeen   Millis
	LastActive Millis
	Kinds      KindSet
	Visibility Visibility
	Version    Version
	SilentFrom Millis
	Held       Millis
	Device     DeviceID
}

// Encode is the value of the status record. Its key is User.Key().
func (s *Status) Encode() []byte {
	return encode(&pb.Status{
		Schema: messageVersion, UserId: int64(s.User), State: s.State, SinceMs: int64(s.Since),
		LastSeenAtMs: int64(s.LastSeen), LastActiveAtMs: int64(s.LastActive), DeviceKinds: s.Kinds.Append(nil),
		Visibility: KnownVisibility(s.Visibility), Version: int64(s.Version), SilentFromMs: int64(s.SilentFrom),
		HeldMs: int64(s.Held), DeviceId: uint32(s.Device),
	})
}

// Current is what the stores would hold of the user if all they had was s.
func (s *Status) Current() Current {
	c := Current{User: s.User, State: s.State, Since: s.Since, LastSeen: s.LastSeen, LastActive: s.LastActive,
		Kinds: s.Kinds, Visibility: s.Visibility, Version: s.Version}
	if s.Visibility == Nobody {
		c.Hidden = s.Version
	}
	return c
}

// DecodeStatus reads a record of the status topic that is not a tombstone. Every
// error is a *FieldError.
func DecodeStatus(value []byte) (*Status, error) {
	var m pb.Status
	if err := decode("status", value, &m, m.GetSchema); err != nil {
		return nil, err
	}
	switch {
	case m.UserId < 1:
		return nil, &FieldError{Code: "invalid_user_id", Field: "user_id", Reason: userIDRange}
	case m.State < Offline || m.State > Online:
		return nil, Invalid("state", "unknown state "+strconv.Itoa(int(m.State)))
	}
	return &Status{
		User: UserID(m.UserId), State: m.State, Since: Millis(m.SinceMs), LastSeen: Millis(m.LastSeenAtMs),
		LastActive: Millis(m.LastActiveAtMs), Kinds: SetOfKinds(m.DeviceKinds...), Visibility: KnownVisibility(m.Visibility),
		Version: Version(m.Version), SilentFrom: Millis(m.SilentFromMs), Held: Millis(m.HeldMs),
		Device: DeviceID(m.DeviceId),
	}, nil
}

// Span is a stretch of log time, Start included, End not.
type Span struct{ Start, End Millis }

// Checkpoint is what the detector keeps in the metadata of a committed offset;
// see transition.proto.
type Checkpoint struct {
	LogEpoch      uint32
	TopicID       [16]byte
	LogTime       Millis // running maximum of the append time at the committed offset
	Frozen        []Span // log time that did not count as silence, oldest first
	ReplayOffset  int64
	ReplayLogTime Millis
}

// Encode is the metadata text.
func (c *Checkpoint) Encode() string {
	m := pb.Checkpoint{Schema: messageVersion, LogEpoch: c.LogEpoch, TopicId: c.TopicID[:], LogTimeMs: int64(c.LogTime),
		ReplayOffset: c.ReplayOffset, ReplayLogTimeMs: int64(c.ReplayLogTime)}
	var last Millis
	for _, s := range c.Frozen {
		m.Frozen = append(m.Frozen, int64(s.Start-last), int64(s.End-s.Start))
		last = s.End
	}
	return base64.RawStdEncoding.EncodeToString(encode(&m))
}

// DecodeCheckpoint reads the metadata text.
func DecodeCheckpoint(text string) (*Checkpoint, error) {
	value, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoint %q: %w", text, err)
	}
	var m pb.Checkpoint
	if err := decode("checkpoint", value, &m, m.GetSchema); err != nil {
		return nil, fmt.Errorf("reading the checkpoint %q: %w", text, err)
	}
	c := &Checkpoint{LogEpoch: m.LogEpoch, LogTime: Millis(m.LogTimeMs), ReplayOffset: m.ReplayOffset,
		ReplayLogTime: Millis(m.ReplayLogTimeMs)}
	copy(c.TopicID[:], m.TopicId)
	var last Millis
	for i := 0; i+1 < len(m.Frozen); i += 2 {
		s := Span{Start: last + Millis(m.Frozen[i])}
		s.End = s.Start + Millis(m.Frozen[i+1])
		c.Frozen = append(c.Frozen, s)
		last = s.End
	}
	return c, nil
}

// encode cannot fail on messages without required fields and with valid UTF-8.
func encode(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

func decode(what string, value []byte, m proto.Message, version func() uint32) error {
	if err := proto.Unmarshal(value, m); err != nil {
		return &FieldError{Code: "malformed", Field: what, Reason: "is not Protobuf: " + err.Error()}
	}
	if v := version(); v != messageVersion {
		return &FieldError{Code: "unsupported_version", Field: "schema",
			Reason: "is " + strconv.FormatUint(uint64(v), 10) + ", this program reads version 1"}
	}
	return nil
}
