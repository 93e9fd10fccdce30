package history

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"
)

// source turns bytes into choices. When they are used up, every choice is the first one.
type source struct{ bytes []byte }

// seedBytes is the length of the byte string of a seed.
func seedBytes(seed uint64) int { return 1000 + int(seed%7)*500 }

// ofSeed returns the byte string of a seed.
func ofSeed(seed uint64, n int) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	bytes := make([]byte, n)
	// Read of ChaCha8 never fails.
	_, _ = rand.NewChaCha8(key).Read(bytes)
	return bytes
}

func (s *source) empty() bool { return len(s.bytes) == 0 }

func (s *source) byte() int {
	if len(s.bytes) == 0 {
		return 0
	}
	b := s.bytes[0]
	s.bytes = s.bytes[1:]
	return int(b)
}

// below chooses one of 0 … n−1.
func (s *source) below(n int) int {
	if n <= 256 {
		return s.byte() % n
	}
	return (s.byte()<<16 | s.byte()<<8 | s.byte()) % n
}

// chance is true once in n times.
func (s *source) chance(n int) bool { return s.below(n) == n-1 }

// one chooses one of the values.
func one[T any](s *source, values ...T) T { return values[s.below(len(values))] }

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
