package redisview

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

// plainValue reads the stored form field by field, as slowly as it likes.
func plainValue(user schemas.UserID, text string) Entry {
	text, tail := cutTail(text)
	denies := ""
	if len(text) == valueLength && text[seenByEnd] >= '8' {
		if len(tail) < audience {
			return Entry{}
		}
		denies, tail = tail[:audience], tail[audience:]
	}
	if tail != "" && (len(tail) > maxTail || !strings.Contains(tail, "\x00")) {
		return Entry{}
	}
	if digits := text + denies; len(text) != valueLength || text[0] != format || strings.ToLower(digits) != digits ||
		strings.ContainsAny(digits, "+-_") {
		return Entry{}
	}
	ok := true
	number := func(from, to int) int64 {
		n, err := strconv.ParseUint(text[from:to], 16, 64)
		ok = ok && err == nil
		return int64(n)
	}
	e := Entry{Found: true, Epoch: number(versionEnd, epochEnd), Current: schemas.Current{
		User: user, Version: schemas.Version(number(1, versionEnd)), Since: schemas.Millis(number(epochEnd, sinceEnd)),
		Hidden: schemas.Version(number(sinceEnd, hiddenEnd)), State: schemas.State(number(hiddenEnd, stateEnd)),
		Visibility: schemas.Visibility(number(stateEnd, seenByEnd)), Kinds: schemas.KindSet(number(seenByEnd, kindsEnd)),
		Override: schemas.Override{State: schemas.OverrideState(number(kindsEnd, overrideEnd) % 4),
			LastSeen: schemas.LastSeen(number(kindsEnd, overrideEnd) / 4)},
		LastSeen:   schemas.Millis(number(overrideEnd, lastSeenEnd)),
		LastActive: schemas.Millis(number(lastSeenEnd, valueLength)),
	}}
	if denies != "" {
		e.Kinds &= 1<<15 - 1
		n, err := strconv.ParseUint(denies, 16, 64)
		e.Override.Audience, ok = schemas.Version(n), ok && err == nil
	}
	if e.Visibility == 0 {
		e.Erased, e.Visibility = true, schemas.Everyone
	}
	if !ok || e.State < schemas.Offline || e.State > schemas.Online {
		return Entry{}
	}
	if tail != "" {
		e.NameSum = tailSum([]byte(tail))
	}
	return e
}

func checkValue(t *testing.T, text string) {
	t.Helper()
	got, want := parseValue(5, text), plainValue(5, text)
	if got != want {
		t.Fatalf("%q is read as %+v, want %+v", text, got, want)
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		parseValue(5, someValue)
	}
}

// cutTail separates the stored name from the rest.
func cutTail(text string) (entry, tail string) {
	if len(text) <= valueLength {
		return text, ""
	}
	return text[:valueLength], text[valueLength:]
}

var someValue = string(appendValue(nil, Entry{Epoch: 0x123456789abc, Current: schemas.Current{Version: 0x7edcba9876543210, Since: 1,
	State: schemas.Away, Visibility: schemas.Nobody, Hidden: 7, Kinds: 5, LastSeen: 0xfedcba987654, LastActive: 0xabcdef,
	Override: schemas.Override{State: schemas.SetAway, LastSeen: schemas.SeenNever, Audience: 0x7edcba9876543210}}}))

func TestEveryCorruptByteOfAValueIsReadAsPlainly(t *testing.T) {
	t.Parallel()
	for at := range len(someValue) {
		for c := range 256 {
			text := someValue[:at] + string([]byte{byte(c)}) + someValue[at+1:]
			checkValue(t, text)
		}
	}
}

func FuzzParseValue(f *testing.F) {
	f.Add(someValue)
	f.Add(someValue[1:])
	f.Add(someValue + "\x00ann")
	f.Add(someValue + "acme\x00ann")
	f.Add(someValue + "ann")
	f.Add(someValue[:valueLength])
	f.Add(strings.Repeat("1", valueLength))
	f.Fuzz(func(t *testing.T, text string) {
		checkValue(t, text)
	})
}
