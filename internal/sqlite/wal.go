package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// A write-ahead log is a header and frames, each a header and a page
// (https://www.sqlite.org/fileformat2.html#walformat). The checksum of a frame continues that of the one
// before. SQLite takes the first wrong one for the end of the log, and drops the commits after it without
// an error.
const (
	walHead   = 32
	frameHead = 24
	walMagic  = 0x377f0682 // the last bit: checksums read big-endian words
)

// checkWAL returns the fault of the log beside a database; empty: none. Frames that a kill has cut off at
// the end are no damage; frames of this log after a damaged one are.
func checkWAL(path string) (fault string, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil || len(raw) < walHead+frameHead {
		return "", err // nothing was committed
	}
	big := binary.BigEndian
	magic := big.Uint32(raw)
	var words binary.ByteOrder = binary.LittleEndian
	if magic&1 == 1 {
		words = big
	}
	page := int(big.Uint32(raw[8:]))
	a, b := walSum(words, 0, 0, raw[:24])
	if magic&^1 != walMagic || page < 512 || page > 65536 || a != big.Uint32(raw[24:]) || b != big.Uint32(raw[28:]) {
		return "its header is damaged", nil
	}
	salt := string(raw[16:24])
	broken := -1
	for at := walHead; at+frameHead+page <= len(raw); at += frameHead + page {
		frame := raw[at : at+frameHead+page]
		if string(frame[8:16]) != salt {
			if broken < 0 {
				broken = at
			}
			continue // of an older log, if no more of this one come
		}
		if broken >= 0 {
			return fmt.Sprintf("the frame at byte %d is damaged", broken), nil
		}
		a, b = walSum(words, a, b, frame[:8])
		if a, b = walSum(words, a, b, frame[frameHead:]); a != big.Uint32(frame[16:]) || b != big.Uint32(frame[20:]) {
			broken = at
		}
	}
	return "", nil
}

// walSum continues a checksum over text, whose length is a multiple of 8.
func walSum(words binary.ByteOrder, a, b uint32, text []byte) (uint32, uint32) {
	for i := 0; i+8 <= len(text); i += 8 {
		a += words.Uint32(text[i:]) + b
		b += words.Uint32(text[i+4:]) + a
	}
	return a, b
}
