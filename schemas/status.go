package schemas

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

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

// Numbers of the fields of Status in proto/stillhere/v1/transition.proto.
const (
	statusSchema protowire.Number = iota + 1
	statusUserID
	statusState
	statusSince
	statusLastSeen
	statusLastActive
	statusKinds
	statusVisibility
	statusVersion
	statusSilentFrom
	statusHeld
	statusDevice
)

// Encode is the value of the status record. Its key is User.Key().
func (s *Status) Encode() []byte { return s.Append(make([]byte, 0, 64)) }

// Append appends what Encode returns to dst.
func (s *Status) Append(dst []byte) []byte {
	dst = appendVarint(dst, statusSchema, messageVersion)
	dst = appendNumber(dst, statusUserID, int64(s.User))
	dst = appendNumber(dst, statusState, int64(s.State))
	dst = appendNumber(dst, statusSince, int64(s.Since))
	dst = appendNumber(dst, statusLastSeen, int64(s.LastSeen))
	dst = appendNumber(dst, statusLastActive, int64(s.LastActive))
	dst = appendKinds(dst, statusKinds, s.Kinds)
	dst = appendNumber(dst, statusVisibility, int64(KnownVisibility(s.Visibility)))
	dst = appendNumber(dst, statusVersion, int64(s.Version))
	dst = appendNumber(dst, statusSilentFrom, int64(s.SilentFrom))
	dst = appendNumber(dst, statusHeld, int64(s.Held))
	return appendNumber(dst, statusDevice, int64(s.Device))
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
	s := new(Status)
	if err := s.Decode(value); err != nil {
		return nil, err
	}
	return s, nil
}

// Decode is DecodeStatus into s, whose previous content is lost. It allocates
// nothing for what a Protobuf writer normally produces. On any error s must not be
// used.
func (s *Status) Decode(value []byte) error {
	var f fields
	if err := f.read(&statusForm, value, "status", func() proto.Message { return &pb.Status{} }); err != nil {
		return err
	}
	if err := supported(f.number[statusSchema]); err != nil {
		return err
	}
	*s = Status{
		User: UserID(f.number[statusUserID]), State: State(f.number[statusState]), Since: Millis(f.number[statusSince]),
		LastSeen: Millis(f.number[statusLastSeen]), LastActive: Millis(f.number[statusLastActive]), Kinds: f.kinds,
		Visibility: KnownVisibility(Visibility(f.number[statusVisibility])), Version: Version(f.number[statusVersion]),
		SilentFrom: Millis(f.number[statusSilentFrom]), Held: Millis(f.number[statusHeld]), Device: DeviceID(f.number[statusDevice]),
	}
	switch {
	case s.User < 1:
		return &FieldError{Code: "invalid_user_id", Field: "user_id", Reason: userIDRange}
	case s.State < Offline || s.State > Online:
		return Invalid("state", "unknown state "+strconv.Itoa(int(s.State)))
	}
	return nil
}
