package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"

	"github.com/stillhere/stillhere/internal/cursor"
	"github.com/stillhere/stillhere/schemas"
)

// position is how far a client of the feed has been sent presence.transitions.
type position struct {
	// at is when it was so, by the clock of the process that sent it.
	at schemas.Millis
	// next is the next offset of each partition.
	next []int64
}

// errNoPosition says that a text is no position of this log.
var errNoPosition = errors.New("is no position of this log")

// positionSealer makes texts of positions. They are encrypted, because offsets tell how many changes all
// tenants have.
type positionSealer struct {
	aead  cipher.AEAD
	topic schemas.TopicID // a position counts for this log alone
}

// sealerOf makes one from the key that a deployment has for cursors.
func sealerOf(key *cursor.Key, topic schemas.TopicID) (*positionSealer, error) {
	own := hmac.New(sha256.New, key[:])
	own.Write([]byte("positions of the console's feed, 1"))
	block, err := aes.NewCipher(own.Sum(nil))
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &positionSealer{aead, topic}, err
}

func (s *positionSealer) seal(p position) string {
	plain := binary.AppendUvarint(make([]byte, 0, 16+5*len(p.next)), uint64(p.at))
	for _, next := range p.next {
		plain = binary.AppendUvarint(plain, uint64(next))
	}
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(plain)+s.aead.Overhead())
	_, _ = rand.Read(nonce) // it never fails
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, plain, s.topic[:]))
}

// open reads the text of a position with so many partitions.
func (s *positionSealer) open(text string, partitions int) (p position, err error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(sealed) < s.aead.NonceSize() {
		return p, errNoPosition
	}
	nonce, sealed := sealed[:s.aead.NonceSize()], sealed[s.aead.NonceSize():]
	plain, err := s.aead.Open(nil, nonce, sealed, s.topic[:])
	if err != nil {
		return p, errNoPosition
	}
	numbers := make([]int64, 0, 1+partitions)
	for len(plain) > 0 && len(numbers) <= partitions {
		n, length := binary.Uvarint(plain)
		if length <= 0 || int64(n) < 0 {
			return p, errNoPosition
		}
		numbers, plain = append(numbers, int64(n)), plain[length:]
	}
	if len(plain) > 0 || len(numbers) != 1+partitions {
		return p, errNoPosition
	}
	return position{schemas.Millis(numbers[0]), numbers[1:]}, nil
}
