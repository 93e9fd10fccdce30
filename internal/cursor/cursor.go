package cursor

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/bits"

	"github.com/stillhere/stillhere/schemas"
)

// MaxUsers is the greatest number of users of one cursor.
const MaxUsers = 65_535

// Withheld is the version of a user whom the reader was not allowed to see when the cursor was made.
// No transition has it: log epochs begin with 1.
const Withheld schemas.Version = 1 << 12

// Erased is the version of a user whom the reader was given as erased by v. No transition has it.
func Erased(v schemas.Version) schemas.Version { return v | schemas.MaxOrdinal }

// Key seals the cursors of a deployment.
type Key [32]byte

// Position is how far a reader has followed users.
type Position struct {
	// At is a log time up to which the reader has been given everything; 0: not known. It bounds the
	// search for changes after the versions.
	At schemas.Millis
	// Versions are what the reader was given last of each user; 0: nothing is known of the user.
	Versions []schemas.Version
}

const (
	format     = 1
	headLength = 1 + 8 + 2 + 3 // format, instant, users, widths
	sealLength = 16
	sumLength  = 4
)

// columns are the parts of a version.
const columns = 3

// longest are the widths of the greatest version.
var longest = [columns]int{bits.Len64(schemas.MaxLogEpoch), bits.Len64(schemas.MaxVersionOffset), bits.Len64(schemas.MaxOrdinal)}

func split(v schemas.Version) [columns]uint64 {
	return [columns]uint64{uint64(v.LogEpoch()), uint64(v.Offset()), uint64(v.Ordinal())}
}

// Seal returns the text of a cursor. users are ascending, at most MaxUsers, and have as many versions.
func (k *Key) Seal(users []schemas.UserID, p Position) string {
	var widths [columns]int
	for _, v := range p.Versions {
		for i, n := range split(v) {
			widths[i] = max(widths[i], bits.Len64(n))
		}
	}
	b := make([]byte, 0, headLength+dataLength(widths, len(users))+sealLength+sumLength)
	b = binary.BigEndian.AppendUint64(append(b, format), uint64(p.At))
	b = binary.BigEndian.AppendUint16(b, uint16(len(users)))
	for _, width := range widths {
		b = append(b, byte(width))
	}
	w := bitWriter{to: b}
	for _, v := range p.Versions {
		for i, n := range split(v) {
			w.write(n, widths[i])
		}
	}
	b = k.appendCode(w.end(), users)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return base64.RawURLEncoding.EncodeToString(b)
}

// appendCode appends the authentication code of content and users.
func (k *Key) appendCode(content []byte, users []schemas.UserID) []byte {
	mac := hmac.New(sha256.New, k[:])
	mac.Write(content)
	ids := make([]byte, 0, 8*len(users))
	for _, user := range users {
		ids = user.AppendKey(ids)
	}
	mac.Write(ids)
	var sum [sha256.Size]byte
	return append(content, mac.Sum(sum[:0])[:sealLength]...)
}

// Sealed is the intact text of a cursor, which may have been made elsewhere.
type Sealed struct {
	content, code []byte
	widths        [columns]int
	users         int
}

// errNone says that a text is no cursor.
var errNone = errors.New("is not a cursor")

// Parse reads the text of a cursor. An error means that no deployment has made it. Anybody can make a
// text that is intact and names many users in few bytes, so the versions are read by Open.
func Parse(text string) (*Sealed, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < headLength+sealLength+sumLength || b[0] != format {
		return nil, errNone
	}
	b, sum := b[:len(b)-sumLength], b[len(b)-sumLength:]
	if binary.BigEndian.Uint32(sum) != crc32.ChecksumIEEE(b) {
		return nil, errNone
	}
	content, code := b[:len(b)-sealLength], b[len(b)-sealLength:]
	users := int(binary.BigEndian.Uint16(content[9:]))
	var widths [columns]int
	for i := range widths {
		if widths[i] = int(content[11+i]); widths[i] > longest[i] {
			return nil, errNone
		}
	}
	if len(content) != headLength+dataLength(widths, users) {
		return nil, errNone
	}
	if int64(binary.BigEndian.Uint64(content[1:])) < 0 {
		return nil, errNone
	}
	return &Sealed{content: content, code: code, widths: widths, users: users}, nil
}

// Open returns the position if k has sealed it for these users, which are ascending.
func (s *Sealed) Open(k *Key, users []schemas.UserID) (Position, bool) {
	if len(users) != s.users {
		return Position{}, false
	}
	want := k.appendCode(s.content[:len(s.content):len(s.content)], users)[len(s.content):]
	if !hmac.Equal(want, s.code) {
		return Position{}, false
	}
	return s.position(), true
}

func (s *Sealed) position() Position {
	p := Position{At: schemas.Millis(binary.BigEndian.Uint64(s.content[1:])), Versions: make([]schemas.Version, s.users)}
	r := bitReader{from: s.content[headLength:]}
	for i := range p.Versions {
		for c, width := range s.widths {
			v := &p.Versions[i]
			*v = *v<<longest[c] | schemas.Version(r.read(width))
		}
	}
	return p
}

func dataLength(widths [columns]int, users int) int {
	return ((widths[0]+widths[1]+widths[2])*users + 7) / 8
}

// bitWriter appends numbers of some bits each, the highest bit first.
type bitWriter struct {
	to   []byte
	held uint64 // the lowest count bits are not written yet
	have int
}

func (w *bitWriter) write(n uint64, width int) {
	for width > 0 {
		part := min(width, 8)
		width -= part
		w.held = w.held<<part | n>>width&(1<<part-1)
		if w.have += part; w.have >= 8 {
			w.have -= 8
			w.to = append(w.to, byte(w.held>>w.have))
		}
	}
}

// end fills the last byte with zeros.
func (w *bitWriter) end() []byte {
	if w.have > 0 {
		w.write(0, 8-w.have)
	}
	return w.to
}

type bitReader struct {
	from []byte
	at   int // in bits
}

func (r *bitReader) read(width int) (n uint64) {
	for range width {
		n = n<<1 | uint64(r.from[r.at/8]>>(7-r.at%8)&1)
		r.at++
	}
	return n
}
