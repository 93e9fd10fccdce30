package replay

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/stillhere/stillhere/schemas"
)

// clock writes instants as RFC 3339 in UTC with milliseconds. Neighbouring rows
// are mostly of one day, whose date is worked out once.
type clock struct {
	day  int64
	date [11]byte // 2006-01-02T
	set  bool
}

const dayMillis = 24 * 60 * 60 * 1000

func (c *clock) append(dst []byte, m schemas.Millis) []byte {
	day, rest := int64(m)/dayMillis, int64(m)%dayMillis
	if rest < 0 || m.Time().Year() > 9999 {
		return m.Time().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	}
	if day != c.day || !c.set {
		c.day, c.set = day, true
		m.Time().AppendFormat(c.date[:0], "2006-01-02T")
	}
	dst = append(dst, c.date[:]...)
	ms := int(rest % 1000)
	s := int(rest / 1000)
	two := func(n int) { dst = append(dst, byte('0'+n/10), byte('0'+n%10)) }
	two(s / 3600)
	dst = append(dst, ':')
	two(s / 60 % 60)
	dst = append(dst, ':')
	two(s % 60)
	return append(dst, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// appendJSONText writes text as a JSON string.
func appendJSONText(dst []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			quoted, err := json.Marshal(text)
			if err != nil { // a string always can be
				panic(err)
			}
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, text...)
	return append(dst, '"')
}

// appendCSVText writes text as a field of RFC 4180.
func appendCSVText(dst []byte, text string) []byte {
	if !strings.ContainsAny(text, "\",\r\n") {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(text, `"`, `""`)...)
	return append(dst, '"')
}

// appendNumber writes n as a JSON string, as Protobuf's JSON mapping does with 64
// bits: most readers of JSON would round a number of that size.
func appendNumber(dst []byte, n int64) []byte {
	dst = append(dst, '"')
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, '"')
}

// kindsJSON and kindsText are the sets of device kinds as written.
var kindsJSON, kindsText = writeKinds()

func writeKinds() (asJSON, asText [64]string) {
	for set := range asJSON {
		words := schemas.KindSet(set).Words()
		text, err := json.Marshal(words)
		if err != nil {
			panic(err)
		}
		asJSON[set], asText[set] = string(text), strings.Join(words, "|")
	}
	return asJSON, asText
}

// Words of the enumerations by their number, so that they are not looked for.
var (
	stateText = wordsOf(func(n int) string { return schemas.StateWord(schemas.State(n)) })
	causeText = wordsOf(func(n int) string { return schemas.CauseWord(schemas.Cause(n)) })
	seenText  = wordsOf(func(n int) string { return schemas.VisibilityWord(schemas.Visibility(n)) })
)

type words [16]string

func wordsOf(word func(int) string) (all words) {
	for n := range all {
		all[n] = word(n)
	}
	return all
}

// of is the word of a value; that of 0, which says so, for what came later.
func (w *words) of(n int32) string {
	if n < 0 || int(n) >= len(w) {
		n = 0
	}
	return w[n]
}
