package redisview

import (
	"github.com/stillhere/stillhere/schemas"
)

type Entry struct {
	schemas.Current
	// Epoch is the rebuild epoch under which the entry was last confirmed. If it is older than
	// that of the partition's progress, the rebuild did not find the user, and the entry means
	// nothing.
	Epoch int64
	Found bool
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
//	1 format "1" | 16 version | 12 epoch | 12 since | 16 hidden | 1 state
//	| 1 visibility | 2 device kinds | 12 last seen | 12 last active
const (
	format      = '1'
	versionEnd  = 1 + 16
	epochEnd    = versionEnd + 12
	sinceEnd    = epochEnd + 12
	hiddenEnd   = sinceEnd + 16
	stateEnd    = hiddenEnd + 1
	seenByEnd   = stateEnd + 1
	kindsEnd    = seenByEnd + 2
	lastSeenEnd = kindsEnd + 12
	valueLength = lastSeenEnd + 12
)

// appendValue appends the stored form of e.
func appendValue(dst []byte, e Entry) []byte {
	dst = append(dst, format)
	dst = appendHex(dst, int64(e.Version), 16)
	dst = appendHex(dst, e.Epoch, 12)
	dst = appendHex(dst, int64(e.Since), 12)
	dst = appendHex(dst, int64(e.Hidden), 16)
	dst = appendHex(dst, int64(e.State), 1)
	dst = appendHex(dst, int64(schemas.KnownVisibility(e.Visibility)), 1)
	dst = appendHex(dst, int64(e.Kinds), 2)
	dst = appendHex(dst, int64(e.LastSeen), 12)
	return appendHex(dst, int64(e.LastActive), 12)
}

// appendHex appends the lowest digits of n.
func appendHex(dst []byte, n int64, digits int) []byte {
	const alphabet = "0123456789abcdef"
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		dst = append(dst, alphabet[n>>shift&0xf])
	}
	return dst
}

// parseValue reads the stored form. Anything else counts as not found, so that the durable store
// answers.
func parseValue(user schemas.UserID, text []byte) Entry {
	if len(text) != valueLength || text[0] != format {
		return Entry{}
	}
	ok := true
	number := func(from, to int) int64 {
		n, good := parseHex(text[from:to])
		ok = ok && good
		return n
	}
	e := Entry{Found: true, Epoch: number(versionEnd, epochEnd), Current: schemas.Current{
		User:       user,
		Version:    schemas.Version(number(1, versionEnd)),
		Since:      schemas.Millis(number(epochEnd, sinceEnd)),
		Hidden:     schemas.Version(number(sinceEnd, hiddenEnd)),
		State:      schemas.State(number(hiddenEnd, stateEnd)),
		Visibility: schemas.Visibility(number(stateEnd, seenByEnd)),
		Kinds:      schemas.KindSet(number(seenByEnd, kindsEnd)),
		LastSeen:   schemas.Millis(number(kindsEnd, lastSeenEnd)),
		LastActive: schemas.Millis(number(lastSeenEnd, valueLength)),
	}}
	if !ok || e.State < schemas.Offline || e.State > schemas.Online {
		return Entry{}
	}
	return e
}

func parseHex(text []byte) (int64, bool) {
	var n int64
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | int64(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | int64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}
