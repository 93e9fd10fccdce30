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
	Drained    bool // Held is for a gateway that was drained as planned

	// Bucket bounds how often the user may change; the zero value is full.
	Bucket Bucket
	// PublishedAt is when, by the rules, the newest published change came about;
	// LeftOut how many changes since were not published.
	PublishedAt Millis
	LeftOut     uint32
	// PolicyAt is the log time from which the policy is in force that the bucket was filled
	// by. Another policy begins with full buckets, but for users who are offline or pending.
	PolicyAt Millis
	// Pending is a change that waits for the bucket; the zero value is none.
	Pending Pending
	// Presumed stands for devices whose heartbeats were lost; the zero value is none.
	Presumed Presumed
}

// Bucket is how far a user's changes have drawn on what is allowed: at log time At it
// lacked Lacks milliseconds of presence time until it is full again.
type Bucket struct{ At, Lacks Millis }

// Pending is what a user has become while no change of it may be published. All
// instants are those that the rules give to the change.
type Pending struct {
	State        State // STATE_UNSPECIFIED: nothing is pending
	Kinds        KindSet
	Visibility   Visibility
	Since        Millis // when the state began
	KindsAt      Millis // when the kinds came about
	VisibilityAt Millis
	Cause        Cause // of the state
	Device       DeviceID
	KindsDevice  DeviceID
	Evicted      bool // the kinds changed because a device was evicted
}

// Presumed are devices of these kinds that count as heard at log time At and as
// touched at Active: their heartbeats were lost.
type Presumed struct {
	At, Active Millis
	Kinds      KindSet
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
	statusBucketAt
	statusBucketLacks
	statusPublishedAt
	statusLeftOut
	statusPendingState
	statusPendingKinds
	statusPendingVisibility
	statusPendingSince
	statusPendingKindsAt
	statusPendingVisibilityAt
	statusPendingCause
	statusPendingDevice
	statusPendingKindsDevice
	statusPendingEvicted
	statusPresumedAt
	statusPresumedActive
	statusPresumedKinds
	statusDrained
	statusPolicyAt
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
	dst = appendNumber(dst, statusDevice, int64(s.Device))
	return s.appendUnusual(dst)
}

// appendUnusual appends what few users have.
func (s *Status) appendUnusual(dst []byte) []byte {
	dst = appendNumber(dst, statusBucketAt, int64(s.Bucket.At))
	dst = appendNumber(dst, statusBucketLacks, int64(s.Bucket.Lacks))
	dst = appendNumber(dst, statusPublishedAt, int64(s.PublishedAt))
	dst = appendNumber(dst, statusLeftOut, int64(s.LeftOut))
	p := &s.Pending
	dst = appendNumber(dst, statusPendingState, int64(p.State))
	dst = appendNumber(dst, statusPendingKinds, int64(p.Kinds))
	dst = appendNumber(dst, statusPendingVisibility, int64(p.Visibility))
	dst = appendNumber(dst, statusPendingSince, int64(p.Since))
	dst = appendNumber(dst, statusPendingKindsAt, int64(p.KindsAt))
	dst = appendNumber(dst, statusPendingVisibilityAt, int64(p.VisibilityAt))
	dst = appendNumber(dst, statusPendingCause, int64(p.Cause))
	dst = appendNumber(dst, statusPendingDevice, int64(p.Device))
	dst = appendNumber(dst, statusPendingKindsDevice, int64(p.KindsDevice))
	if p.Evicted {
		dst = appendVarint(dst, statusPendingEvicted, 1)
	}
	dst = appendNumber(dst, statusPresumedAt, int64(s.Presumed.At))
	dst = appendNumber(dst, statusPresumedActive, int64(s.Presumed.Active))
	dst = appendNumber(dst, statusPresumedKinds, int64(s.Presumed.Kinds))
	if s.Drained {
		dst = appendVarint(dst, statusDrained, 1)
	}
	dst = appendNumber(dst, statusPolicyAt, int64(s.PolicyAt))
	return dst
}

// Tombstone tells whether s says no more than that nothing is known of the user, which
// is what a record without a value says.
func (s *Status) Tombstone() bool {
	return s.State == Offline && s.Visibility != Nobody && s.Bucket.At == 0 && s.Pending.State == 0
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
		Drained:     f.number[statusDrained] != 0,
		Bucket:      Bucket{At: Millis(f.number[statusBucketAt]), Lacks: Millis(f.number[statusBucketLacks])},
		PublishedAt: Millis(f.number[statusPublishedAt]), LeftOut: uint32(f.number[statusLeftOut]), PolicyAt: Millis(f.number[statusPolicyAt]),
		Pending: Pending{
			State: State(f.number[statusPendingState]), Kinds: KindSet(f.number[statusPendingKinds]),
			Visibility: Visibility(f.number[statusPendingVisibility]), Since: Millis(f.number[statusPendingSince]),
			KindsAt: Millis(f.number[statusPendingKindsAt]), VisibilityAt: Millis(f.number[statusPendingVisibilityAt]),
			Cause: Cause(f.number[statusPendingCause]), Device: DeviceID(f.number[statusPendingDevice]),
			KindsDevice: DeviceID(f.number[statusPendingKindsDevice]), Evicted: f.number[statusPendingEvicted] != 0,
		},
		Presumed: Presumed{At: Millis(f.number[statusPresumedAt]), Active: Millis(f.number[statusPresumedActive]),
			Kinds: KindSet(f.number[statusPresumedKinds])},
	}
	switch {
	case s.User < 1:
		return &FieldError{Code: "invalid_user_id", Field: "user_id", Reason: userIDRange}
	case s.State < Offline || s.State > Online:
		return Invalid("state", "unknown state "+strconv.Itoa(int(s.State)))
	}
	return nil
}
