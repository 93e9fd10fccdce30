package schemas

import (
	"strconv"

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
	Drained    bool // Held is for a gateway that was drained as planned

	// Bucket bounds how often the user may change; the zero value is full.
	Bucket Bucket
	// PublishedAt is at of the newest transition while a change could lie before it, 0 after that; LeftOut
	// counts the changes since then that were not published.
	PublishedAt Millis
	LeftOut     uint32
	// PolicyAt is the log time from which the policy of the bucket is in force. Another policy
	// begins with full buckets, except for users who are offline or pending.
	PolicyAt Millis
	// Pending is a change that waits for the bucket; the zero value is none.
	Pending Pending
	// Presumed are devices whose heartbeats were lost; the zero value is none.
	Presumed Presumed
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
	// JudgedFrom names the record from which on the user is judged by the policy of the tenant, if it
	// has one; 0: by the pipeline's. JudgedAt is the log time at it, while limits may wait for it.
	JudgedFrom Version
	JudgedAt   Millis
	// Lapsed says how a user who was erased was judged before, while a restart may re-read that.
	Lapsed Lapsed
}

// Lapsed is a time in which a user was judged by the policy of a tenant: from the record that From names
// up to the one that Until names. Until is 0 if there was none.
type Lapsed struct {
	From, Until Version
	Tenant      string
}

// Bucket is the token bucket of a user's changes: at log time At it needed Lacks milliseconds
// of presence time to be full.
type Bucket struct{ At, Lacks Millis }

// Pending is a user's state that may not be published yet. All instants are those that the rules
// give to the change.
type Pending struct {
	State        State // STATE_UNSPECIFIED: nothing is pending
	Kinds        KindSet
	Visibility   Visibility
	Since        Millis // when the state began
	KindsAt      Millis // when the kinds changed
	VisibilityAt Millis
	Cause        Cause // of the state
	Device       DeviceID
	KindsDevice  DeviceID
	Evicted      bool // the kinds changed because a device was evicted
}

// Presumed are devices whose heartbeats were lost: they count as heard at log time At and as
// touched at Active.
type Presumed struct {
	At, Active Millis
	Kinds      KindSet
}

var statusForm = form{last: 45, kinds: 7, texts: 1<<37 | 1<<38 | 1<<44}

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
	number(c, 10, &s.SilentFrom)
	number(c, 11, &s.Held)
	number(c, 12, &s.Device)
	// Few users have the fields below.
	number(c, 13, &s.Bucket.At)
	number(c, 14, &s.Bucket.Lacks)
	number(c, 15, &s.PublishedAt)
	number(c, 16, &s.LeftOut)
	number(c, 17, &s.Pending.State)
	number(c, 18, &s.Pending.Kinds)
	number(c, 19, &s.Pending.Visibility)
	number(c, 20, &s.Pending.Since)
	number(c, 21, &s.Pending.KindsAt)
	number(c, 22, &s.Pending.VisibilityAt)
	number(c, 23, &s.Pending.Cause)
	number(c, 24, &s.Pending.Device)
	number(c, 25, &s.Pending.KindsDevice)
	c.flag(26, &s.Pending.Evicted)
	number(c, 27, &s.Presumed.At)
	number(c, 28, &s.Presumed.Active)
	number(c, 29, &s.Presumed.Kinds)
	c.flag(30, &s.Drained)
	number(c, 31, &s.PolicyAt)
	number(c, 32, &s.ShownAt)
	number(c, 33, &s.UnsureSince)
	c.flag(34, &s.UnsureEnded)
	number(c, 35, &s.ErasedVersion)
	number(c, 36, &s.WithheldUntil)
	c.name(37, &s.Name)
	number(c, 40, &s.JudgedFrom)
	number(c, 41, &s.JudgedAt)
	number(c, 42, &s.Lapsed.From)
	number(c, 43, &s.Lapsed.Until)
	c.text1(44, &s.Lapsed.Tenant)
	number(c, 45, &s.NamedUntil)
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
	return s.Nameless() && s.ShownAt == 0 && s.ErasedVersion == 0 && s.Lapsed.Until == 0 && s.NamedUntil == 0
}

// LeftHeader is the header of a tombstone that says when the user left, in milliseconds as decimal text. A
// tombstone has it if a change could lie before that instant.
const LeftHeader = "left_at_ms"

// LeftAt is when the user of a tombstone left; 0 if the record does not say it.
func LeftAt(r *Record) Millis {
	at, err := strconv.ParseInt(string(r.Header(LeftHeader)), 10, 64)
	if err != nil || at < 0 {
		return 0
	}
	return Millis(at)
}

// Nameless reports whether s keeps no name for good: it says nothing of the user's presence, and the name is not
// needed to know by which policy the user is judged.
func (s *Status) Nameless() bool { return s.Absent() && s.JudgedFrom == 0 }

// Absent reports whether s says nothing of the user's presence.
func (s *Status) Absent() bool {
	return s.State == Offline && s.Visibility != Nobody && s.Bucket.At == 0 && s.Pending.State == 0
}

// Current is what the stores would hold of the user if s were all they had.
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
	case s.Lapsed.From < 0 || s.Lapsed.Until < s.Lapsed.From:
		return Invalid("lapsed_from_version", "must be between 0 and lapsed_until_version")
	case s.JudgedFrom < 0:
		return Invalid("judged_from_version", "must not be negative")
	}
	return nil
}
