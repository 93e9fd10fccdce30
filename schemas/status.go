package schemas

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// Status is what the newest transition of a user said, and what a detector must know that has lost its snapshot; see
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
	// ShownAt is when a user who had hidden showed again; 0 if no time of the user can be before it.
	ShownAt Millis
	// UnsureSince is set while the user is present by devices of lost gateways alone: since then no
	// gateway can report them. It is never set for hidden users. UnsureEnded: the status before had it.
	UnsureSince Millis
	UnsureEnded bool
	// ErasedVersion is the version of the user's erasure, until WithheldUntil: older transitions are
	// not to be sent any more.
	ErasedVersion Version
	WithheldUntil Millis
	// Name is the user's name in text mode, the zero value until it is known. NamedUntil is set if nothing
	// else is known of the user: until this log time it is the name of heartbeats without one.
	Name       Name
	NamedUntil Millis
	// Override is as in Transition, but LastSeen is the user's choice alone. It is kept while the user is offline.
	Override Override
}

var statusForm = form{last: 25, kinds: [2]protowire.Number{7, 18}, texts: 1<<15 | 1<<16 | 1<<21}

// walk lists the fields by their numbers in proto/stillhere/v1/transition.proto.
func (s *Status) walk(c *codec) {
	number(c, 2, &s.User)
	number(c, 3, &s.State)
	number(c, 4, &s.Since)
	number(c, 5, &s.LastSeen)
	number(c, 6, &s.LastActive)
	c.kinds(7, &s.Kinds)
	c.visibility(8, &s.Visibility)
	number(c, 9, &s.Version)
	// Few users have the fields below.
	number(c, 10, &s.ShownAt)
	number(c, 11, &s.UnsureSince)
	c.flag(12, &s.UnsureEnded)
	number(c, 13, &s.ErasedVersion)
	number(c, 14, &s.WithheldUntil)
	c.name(15, &s.Name)
	number(c, 17, &s.NamedUntil)
	c.activeKinds(18, &s.Kinds)
	s.Override.walk(c, 19)
}

// Encode is the value of the status record. Its key is User.Key().
func (s *Status) Encode() []byte { return s.Append(make([]byte, 0, 64)) }

// Append appends what Encode returns to dst.
func (s *Status) Append(dst []byte) []byte {
	c := codec{dst: appendVarint(dst, 1, messageVersion)}
	s.walk(&c)
	return c.dst
}

// Tombstone reports whether s means the same as a tombstone: nothing is known of the user.
func (s *Status) Tombstone() bool {
	return s.Absent() && s.ShownAt == 0 && s.ErasedVersion == 0 && s.NamedUntil == 0
}

// Absent reports whether s says nothing of the user's presence: offline, visible to everyone, without a choice.
func (s *Status) Absent() bool {
	return s.State == Offline && s.Visibility != Nobody && s.Override == Override{}
}

// Current is what the stores would hold of the user if s were all they had.
func (s *Status) Current() Current {
	c := Current{User: s.User, State: s.State, Since: s.Since, LastSeen: s.LastSeen, LastActive: s.LastActive,
		Kinds: s.Kinds, Visibility: s.Visibility, Version: s.Version, Override: s.Override}
	if s.Override.Shown(s.Override.Automatic) != s.Override.Automatic {
		c.Kinds = c.Kinds.As(c.State)
	}
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

// Decode is DecodeStatus into s, whose previous content it replaces. It does not allocate for
// what a Protobuf writer normally produces. After an error s must not be used.
func (s *Status) Decode(value []byte) error {
	var c codec
	if err := c.read(&statusForm, value, "status", func() proto.Message { return &pb.Status{} }); err != nil {
		return err
	}
	s.walk(&c)
	switch {
	case s.User < 1:
		return invalidUser("user_id")
	case s.State < Offline || s.State > Online:
		return Invalid("state", "unknown state "+strconv.Itoa(int(s.State)))
	case s.ErasedVersion < 0 || s.ErasedVersion > s.Version:
		return Invalid("erased_version", "must be between 0 and version")
	}
	return s.Override.checkPublished()
}
