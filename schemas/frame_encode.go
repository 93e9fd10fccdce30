package schemas

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// FrameHead holds the fields of a frame besides its beats.
type FrameHead struct {
	Gateway      GatewayID
	GatewayEpoch Millis // when its process started; 0: the frame is of none
	Sequence     uint64
	Draining     bool
	Forwarded    bool
	ForwardedAt  Millis // of a forwarded frame: see Frame
	Begins, Ends bool   // of a replacement: see Frame
	Leased       bool   // see Frame
	LeaseEnded   Millis // at most MaxIdle
}

// AppendFrame appends the encoding of a frame to dst. It does not check values: the caller must
// not pass what Decode refuses. A frame without beats reports that the gateway is alive. With
// enough capacity in dst AppendFrame does not allocate.
func AppendFrame(dst []byte, head FrameHead, beats []Beat) []byte {
	dst = appendVarint(dst, fieldVersion, FrameVersion)
	if head.Gateway != "" {
		dst = protowire.AppendTag(dst, fieldGatewayID, protowire.BytesType)
		dst = protowire.AppendString(dst, string(head.Gateway))
		dst = appendVarint(dst, fieldGatewayEpoch, uint64(head.GatewayEpoch))
	}
	if head.Sequence != 0 {
		dst = appendVarint(dst, fieldSequence, head.Sequence)
	}
	if len(beats) > 0 {
		dst = appendColumns(dst, beats)
	}
	if head.Draining {
		dst = appendVarint(dst, fieldDraining, 1)
	}
	if head.Forwarded {
		dst = appendVarint(dst, fieldForwarded, 1)
	}
	if head.ForwardedAt != 0 {
		dst = appendVarint(dst, fieldForwardedAt, uint64(head.ForwardedAt))
	}
	if slices.ContainsFunc(beats, func(b Beat) bool { return b.Connection != 0 }) {
		dst = appendColumn(dst, fieldConnection, uint64(4*len(beats)))
		for i := range beats {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(beats[i].Connection))
		}
	}
	if head.Begins {
		dst = appendVarint(dst, fieldBegins, 1)
	}
	if head.Ends {
		dst = appendVarint(dst, fieldEnds, 1)
	}
	if head.Leased {
		dst = appendVarint(dst, fieldLeased, 1)
	}
	if head.LeaseEnded != 0 {
		dst = appendVarint(dst, fieldLeaseEnded, uint64(head.LeaseEnded))
	}
	return dst
}

// appendColumns writes the columns except those that are all default.
func appendColumns(dst []byte, beats []Beat) []byte {
	var byes bool
	var ages, idles, ageBytes, idleBytes int
	for i := range beats {
		b := &beats[i]
		byes = byes || b.Bye || b.Lost
		ages |= int(b.Age)
		idles |= int(b.Idle)
		ageBytes += protowire.SizeVarint(uint64(b.Age))
		idleBytes += protowire.SizeVarint(uint64(b.Idle))
	}
	n := uint64(len(beats))
	dst = appendColumn(dst, fieldUserID, 8*n)
	for i := range beats {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(beats[i].User))
	}
	dst = appendColumn(dst, fieldDeviceID, 4*n)
	for i := range beats {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(beats[i].Device))
	}
	dst = appendColumn(dst, fieldDeviceKind, n)
	for i := range beats {
		dst = append(dst, byte(KnownKind(beats[i].Kind)))
	}
	if byes {
		dst = appendColumn(dst, fieldBeatKind, n)
		for i := range beats {
			switch {
			case beats[i].Bye:
				dst = append(dst, byte(pb.BeatKind_BEAT_KIND_BYE))
			case beats[i].Lost:
				dst = append(dst, byte(lastBeatKind))
			default:
				dst = append(dst, 0)
			}
		}
	}
	if ages != 0 {
		dst = appendColumn(dst, fieldAge, uint64(ageBytes))
		for i := range beats {
			dst = protowire.AppendVarint(dst, uint64(beats[i].Age))
		}
	}
	if idles != 0 {
		dst = appendColumn(dst, fieldIdle, uint64(idleBytes))
		for i := range beats {
			dst = protowire.AppendVarint(dst, uint64(beats[i].Idle))
		}
	}
	return dst
}

// AppendTick appends a tick: a frame that advances log time.
func AppendTick(dst []byte) []byte {
	dst = appendVarint(dst, fieldVersion, FrameVersion)
	return appendVarint(dst, fieldTick, 1)
}

// AppendTickBehind appends the tick of an owner that does not keep up.
func AppendTickBehind(dst []byte) []byte { return appendVarint(AppendTick(dst), fieldBehind, 1) }

// AppendVisibility appends the frame that sets the visibility of user.
func AppendVisibility(dst []byte, user UserID, visibility Visibility) []byte {
	return AppendNamedVisibility(dst, user, visibility, Name{})
}

// AppendNamedVisibility is AppendVisibility with the user's name, in pipelines with --ids text. The name may be the
// zero value.
func AppendNamedVisibility(dst []byte, user UserID, visibility Visibility, name Name) []byte {
	dst = appendColumn(appendVarint(dst, fieldVersion, FrameVersion), fieldVisibility, uint64(11+sizeOfName(name)))
	dst = protowire.AppendFixed64(protowire.AppendTag(dst, 1, protowire.Fixed64Type), uint64(user))
	c := codec{dst: appendVarint(dst, 2, uint64(visibility))}
	c.name(3, &name)
	return c.dst
}

// AppendOverride appends the frame that gives the user an override, or with the zero value none. The name is as in
// AppendNamedVisibility.
func AppendOverride(dst []byte, user UserID, o Override, name Name) []byte {
	return append(dst, encode(&pb.Frame{Version: FrameVersion, Visibility: &pb.VisibilityChange{UserId: int64(user),
		Tenant: name.Tenant, Name: name.Text,
		Override: &pb.Override{State: o.State, UntilMs: int64(o.Until), Note: o.Note}}})...)
}

// AppendLastSeen appends the frame that sets what others learn of when the user was last here. The name is as in
// AppendNamedVisibility.
func AppendLastSeen(dst []byte, user UserID, lastSeen LastSeen, name Name) []byte {
	return append(dst, encode(&pb.Frame{Version: FrameVersion, Visibility: &pb.VisibilityChange{UserId: int64(user),
		Tenant: name.Tenant, Name: name.Text, LastSeen: lastSeen}})...)
}

// AppendDenies appends the frame that changes whom the user denies. The name is as in AppendNamedVisibility.
func AppendDenies(dst []byte, user UserID, d Denies, name Name) []byte {
	var m pb.Denies
	if err := proto.Unmarshal([]byte(d), &m); err != nil {
		panic(err) // as in Changes
	}
	return append(dst, encode(&pb.Frame{Version: FrameVersion, Visibility: &pb.VisibilityChange{UserId: int64(user),
		Tenant: name.Tenant, Name: name.Text, Denies: &m}})...)
}

// AppendForwardedVisibility appends the change of f, which was written to a partition other than the user's.
func AppendForwardedVisibility(dst []byte, f *Frame) []byte {
	switch {
	case f.Override != nil:
		dst = AppendOverride(dst, f.VisibilityUser, *f.Override, f.VisibilityName)
	case f.Denies != "":
		dst = AppendDenies(dst, f.VisibilityUser, f.Denies, f.VisibilityName)
	case f.LastSeen != 0:
		dst = AppendLastSeen(dst, f.VisibilityUser, f.LastSeen, f.VisibilityName)
	default:
		dst = AppendNamedVisibility(dst, f.VisibilityUser, f.Visibility, f.VisibilityName)
	}
	return appendVarint(dst, fieldForwarded, 1)
}

// AppendErasure appends the frame that erases user. The name may be the zero value. until is when the last copy in a topic is gone;
// until withheld the status of the user names the erasure (0: it does not); forwarded says that the
// erasure was written to a partition other than the user's.
func AppendErasure(dst []byte, user UserID, name Name, until, withheld Millis, forwarded bool) []byte {
	dst = appendVarint(dst, fieldVersion, FrameVersion)
	if forwarded {
		dst = appendVarint(dst, fieldForwarded, 1)
	}
	size := 10 + protowire.SizeVarint(uint64(until))
	if withheld != 0 {
		size += 1 + protowire.SizeVarint(uint64(withheld))
	}
	dst = appendColumn(dst, fieldErasure, uint64(size+sizeOfName(name)))
	dst = protowire.AppendTag(dst, 1, protowire.Fixed64Type)
	dst = protowire.AppendFixed64(dst, uint64(user))
	dst = appendVarint(dst, 2, uint64(until))
	if withheld != 0 {
		dst = appendVarint(dst, 3, uint64(withheld))
	}
	c := codec{dst: dst}
	c.name(4, &name)
	return c.dst
}

// sizeOfName is what the two fields of a name take.
func sizeOfName(name Name) (size int) {
	for _, text := range []string{name.Tenant, name.Text} {
		if text != "" {
			size += 1 + protowire.SizeBytes(len(text))
		}
	}
	return size
}

func appendVarint(dst []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), v)
}

func appendColumn(dst []byte, field protowire.Number, bytes uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.BytesType), bytes)
}
