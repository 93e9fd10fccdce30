package schemas

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/segmentio/ksuid"
)

// Version orders and deduplicates the transitions of one user, and names the record of the
// heartbeats partition that caused each. It is positive, and greater for every later transition
// of the user.
type Version int64

const (
	ordinalBits = 12
	offsetBits  = 41

	// MaxLogEpoch and MaxOrdinal are the greatest that a version can name.
	MaxLogEpoch = 1<<(63-offsetBits-ordinalBits) - 1
	MaxOrdinal  = 1<<ordinalBits - 1

	// MaxVersionOffset is the greatest offset that a version can name, counted from the
	// base of its log epoch.
	MaxVersionOffset = 1<<offsetBits - 1
)

// NewVersion packs a version. logEpoch is the partition's log epoch (1 to 1023), offset that of
// the causing record less the base of the epoch (see Checkpoint.Bases), ordinal the number of
// earlier transitions that this record caused for the user. It panics if one is out of range: the
// limits of a frame rule out a greater ordinal, and the detector begins another epoch before 41
// bits of offsets are used up, which takes 3.5 years at 20,000 records a second.
func NewVersion(logEpoch uint32, offset int64, ordinal int) Version {
	if logEpoch < 1 || logEpoch > MaxLogEpoch || offset < 0 || offset > MaxVersionOffset ||
		ordinal < 0 || ordinal > MaxOrdinal {
		panic(fmt.Sprintf("version out of range: log epoch %d, offset %d, ordinal %d", logEpoch, offset, ordinal))
	}
	return Version(logEpoch)<<(offsetBits+ordinalBits) | Version(offset)<<ordinalBits | Version(ordinal)
}

// LogEpoch is the log epoch of the partition, from 1.
func (v Version) LogEpoch() uint32 { return uint32(v >> (offsetBits + ordinalBits)) }

// Offset is that of the causing record in the heartbeats partition, less the epoch's base.
func (v Version) Offset() int64 { return int64(v>>ordinalBits) & MaxVersionOffset }

// Ordinal is the number of earlier transitions that the record caused for the user.
func (v Version) Ordinal() int { return int(v & MaxOrdinal) }

// Record is log epoch and offset as one number: equal for all transitions that a record caused,
// and never decreasing in a partition of the transitions.
func (v Version) Record() int64 { return int64(v >> ordinalBits) }

// OfChange reports whether a transition can have the version. A status that no transition came with, as of
// a user of a lost gateway, has one that lies between those of the user's transitions: the greatest of the
// record before, whose ordinal no transition has.
func (v Version) OfChange() bool { return v.Ordinal() != MaxOrdinal }

func (v Version) String() string { return fmt.Sprint(int64(v)) }

// EventID is the permanent id of a transition: a KSUID whose time is at (seconds) and whose payload
// is the first 16 bytes of SHA-256 over user and version, each 8 bytes big-endian. The same
// transition computed twice has the same id.
func EventID(user UserID, version Version, at Millis) ksuid.KSUID {
	var input [16]byte
	binary.BigEndian.PutUint64(input[:8], uint64(user))
	binary.BigEndian.PutUint64(input[8:], uint64(version))
	sum := sha256.Sum256(input[:])
	// Only a payload of another length than 16 is refused.
	id, err := ksuid.FromParts(at.Time(), sum[:16])
	if err != nil {
		panic(err)
	}
	return id
}
