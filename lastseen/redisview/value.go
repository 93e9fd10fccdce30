package redisview

import (
	"encoding/binary"
	"hash/maphash"
	"strings"

	"github.com/stillhere/stillhere/schemas"
)

type Entry struct {
	schemas.Current
	// Epoch is the rebuild epoch under which the entry was last confirmed. If it is older than
	// that of the partition's progress, the rebuild did not find the user, and the entry means
	// nothing.
	Epoch int64
	Found bool
	// NameSum is NameSum of the stored name; 0: none is stored.
	NameSum uint64
	// Erased: the user was erased by Version. Older records and rows count for nothing.
	Erased bool
}

// Complete reports whether the entry has everything that readers show. An entry that was written
// without its history has no Since, or no Hidden version: they are 0, and the durable store knows
// them.
func (e Entry) Complete() bool {
	return e.Since != 0 && (e.Visibility != schemas.Nobody || e.Hidden != 0)
}

// An entry is stored as text of fixed width, numbers in hexadecimal, so that the script can
// compare versions and epochs as text (Lua's numbers would round them) and copy fields by
// position:
//
//	1 format "2" | 16 version | 12 epoch | 12 since | 16 hidden | 1 state
//	| 1 visibility, or "0" for an erased user | 4 device kinds, whose greatest bit says that the user has denied viewers
//	| 1 state and last seen of the override | 12 last seen | 12 last active
//	| with that bit: 16 version of the list of denied viewers
//	| in text mode, once the name is known: tenant | 1 byte 0 | name
const (
	format      = '2'
	erasedMark  = '0'
	versionEnd  = 1 + 16
	epochEnd    = versionEnd + 12
	sinceEnd    = epochEnd + 12
	hiddenEnd   = sinceEnd + 16
	stateEnd    = hiddenEnd + 1
	seenByEnd   = stateEnd + 1
	kindsEnd    = seenByEnd + 4
	overrideEnd = kindsEnd + 1
	lastSeenEnd = overrideEnd + 12
	valueLength = lastSeenEnd + 12 // without what few users have
	audience    = 16               // digits
	deniesMark  = 1 << 15          // beside the device kinds
	maxTail     = schemas.MaxTenant + 1 + schemas.MaxName
)

// nameSeed makes sums of names unpredictable, so that nobody can look for two names with one sum.
var nameSeed = maphash.MakeSeed()

// NameSum stands for a name within this process; it is 0 for none. Reads compare it with that of the
// name asked for, which spares them a string for each user.
func NameSum(name schemas.Name) uint64 {
	if name == (schemas.Name{}) {
		return 0
	}
	var space [maxTail]byte
	return tailSum(appendTail(space[:0], name))
}

func tailSum(tail []byte) uint64 { return max(1, maphash.Bytes(nameSeed, tail)) }

// appendTail appends the stored form of a name.
func appendTail(dst []byte, name schemas.Name) []byte {
	if name == (schemas.Name{}) {
		return dst
	}
	return append(append(append(dst, name.Tenant...), 0), name.Text...)
}

// appendValue appends the stored form of e.
func appendValue(dst []byte, e Entry) []byte {
	dst = append(dst, format)
	dst = appendHex(dst, int64(e.Version), 16)
	dst = appendHex(dst, e.Epoch, 12)
	dst = appendHex(dst, int64(e.Since), 12)
	dst = appendHex(dst, int64(e.Hidden), 16)
	dst = appendHex(dst, int64(e.State), 1)
	if e.Erased {
		dst = append(dst, erasedMark)
	} else {
		dst = appendHex(dst, int64(schemas.KnownVisibility(e.Visibility)), 1)
	}
	mark := int64(0)
	if e.Override.Audience != 0 {
		mark = deniesMark
	}
	dst = appendHex(dst, int64(e.Kinds)|mark, 4)
	dst = appendHex(dst, int64(e.Override.State)|int64(e.Override.LastSeen)<<2, 1)
	dst = appendHex(dst, int64(e.LastSeen), 12)
	dst = appendHex(dst, int64(e.LastActive), 12)
	if mark != 0 {
		dst = appendHex(dst, int64(e.Override.Audience), audience)
	}
	return dst
}

// appendHex appends the lowest digits of n.
func appendHex(dst []byte, n int64, digits int) []byte {
	const alphabet = "0123456789abcdef"
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		dst = append(dst, alphabet[n>>shift&0xf])
	}
	return dst
}

// parseValue reads the stored form. Anything else counts as not found, so that the durable store answers.
func parseValue(user schemas.UserID, stored string) Entry {
	if len(stored) < valueLength || stored[0] != format {
		return Entry{}
	}
	var sum, bad uint64
	var denies schemas.Version
	tail := stored[valueLength:]
	if stored[seenByEnd] >= '8' {
		if len(tail) < audience {
			return Entry{}
		}
		denies, tail = schemas.Version(hex16([]byte(tail[:audience]), &bad)), tail[audience:]
	}
	if tail != "" {
		if len(tail) > maxTail || strings.IndexByte(tail, 0) < 0 {
			return Entry{}
		}
		sum = max(1, maphash.String(nameSeed, tail))
	}
	var space [valueLength]byte
	copy(space[:], stored)
	text := space[:]
	small := hex8(text[hiddenEnd:], &bad) >> 4 // seven digits: state, visibility, device kinds, override
	e := Entry{Found: true, NameSum: sum, Epoch: hex12(text[versionEnd:], &bad), Current: schemas.Current{
		User:       user,
		Version:    schemas.Version(hex16(text[1:], &bad)),
		Since:      schemas.Millis(hex12(text[epochEnd:], &bad)),
		Hidden:     schemas.Version(hex16(text[sinceEnd:], &bad)),
		State:      schemas.State(small >> 24),
		Visibility: schemas.Visibility(small >> 20 & 0xf),
		Kinds:      schemas.KindSet(small >> 4 &^ deniesMark),
		Override:   schemas.Override{State: schemas.OverrideState(small & 3), LastSeen: schemas.LastSeen(small >> 2 & 3), Audience: denies},
		LastSeen:   schemas.Millis(hex12(text[overrideEnd:], &bad)),
		LastActive: schemas.Millis(hex12(text[lastSeenEnd:], &bad)),
	}}
	if e.Erased = text[stateEnd] == erasedMark; e.Erased {
		e.Visibility = schemas.Everyone
	}
	if bad != 0 || e.State < schemas.Offline || e.State > schemas.Online {
		return Entry{}
	}
	return e
}

func hex16(text []byte, bad *uint64) int64 { return hex8(text, bad)<<32 | hex8(text[8:], bad) }

func hex12(text []byte, bad *uint64) int64 { return hex8(text, bad)<<16 | hex8(text[4:], bad)&0xffff }

// hex8 reads the first eight lower-case hexadecimal digits of text. It sets bits of bad if one of them is
// none.
func hex8(text []byte, bad *uint64) int64 {
	n, wrong := digits8(text)
	*bad |= wrong
	return joined(n)
}

// digits8 returns the first eight lower-case hexadecimal digits of text, each in a byte of its own. bad is
// not 0 if one of them is none.
func digits8(text []byte) (n, bad uint64) {
	const ones = 0x0101010101010101
	x := binary.BigEndian.Uint64(text)
	letters := x >> 6 & ones // 1 for a to f, whose bit 6 is set
	// A byte that is too small borrows from the next one, but its own high half shows that it is bad.
	n = x - '0'*ones - ('a'-10-'0')*letters
	return n, n&(0xf0*ones) | ((n+6*ones)^letters<<4)&(0x10*ones) // above 9 are letters, and only letters
}

// joined is the number of eight digits.
func joined(n uint64) int64 {
	n = (n | n>>4) & 0x00ff00ff00ff00ff
	n = (n | n>>8) & 0x0000ffff0000ffff
	return int64((n | n>>16) & 0xffffffff)
}
