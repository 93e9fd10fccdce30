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

// fields appends the columns of a row, as a line of JSON or of CSV, or their names as the
// head of a CSV file. In CSV, null is empty and device kinds are separated by bars.
type fields struct {
	buffer []byte
	format Format
	names  bool // append names in place of values
	any    bool // of the line
	clock  clock
}

// next begins a column; false when that is all.
func (f *fields) next(name string) bool {
	switch {
	case f.format == JSONL && !f.any:
		f.buffer = append(f.buffer, '{', '"')
	case f.format == JSONL:
		f.buffer = append(f.buffer, ',', '"')
	case f.any:
		f.buffer = append(f.buffer, ',')
	}
	f.any = true
	if f.format == JSONL {
		f.buffer = append(append(f.buffer, name...), '"', ':')
	} else if f.names {
		f.buffer = append(f.buffer, name...)
	}
	return !f.names
}

// end ends a line.
func (f *fields) end() {
	if f.any = false; f.format == JSONL {
		f.buffer = append(f.buffer, '}')
	}
	f.buffer = append(f.buffer, '\n')
}

// quote appends a quotation mark where the format has them.
func (f *fields) quote() {
	if f.format == JSONL {
		f.buffer = append(f.buffer, '"')
	}
}

// null appends no value.
func (f *fields) null() {
	if f.format == JSONL {
		f.buffer = append(f.buffer, "null"...)
	}
}

// word appends text that needs no escapes.
func (f *fields) word(name, value string) {
	if f.next(name) {
		f.quote()
		f.buffer = append(f.buffer, value...)
		f.quote()
	}
}

func (f *fields) bytes(name string, value []byte) {
	if f.next(name) {
		f.quote()
		f.buffer = append(f.buffer, value...)
		f.quote()
	}
}

// long appends a number of 64 bits, in JSON as a string, as Protobuf's JSON mapping does: most
// readers of JSON would round it.
func (f *fields) long(name string, n int64) {
	if f.next(name) {
		f.quote()
		f.buffer = strconv.AppendInt(f.buffer, n, 10)
		f.quote()
	}
}

// number appends a number; null for 0 where that is optional.
func (f *fields) number(name string, n int64, optional bool) {
	switch {
	case !f.next(name):
	case n == 0 && optional:
		f.null()
	default:
		f.buffer = strconv.AppendInt(f.buffer, n, 10)
	}
}

func (f *fields) flag(name string, value bool) {
	if f.next(name) {
		f.buffer = strconv.AppendBool(f.buffer, value)
	}
}

// instant appends an instant, null for never.
func (f *fields) instant(name string, m schemas.Millis) {
	switch {
	case !f.next(name):
	case m == 0:
		f.null()
	default:
		f.quote()
		f.buffer = f.clock.append(f.buffer, m)
		f.quote()
	}
}

func (f *fields) kinds(name string, set schemas.KindSet) {
	switch {
	case !f.next(name):
	case f.format == JSONL:
		f.buffer = append(f.buffer, kindsJSON[set&63]...)
	default:
		f.buffer = append(f.buffer, kindsText[set&63]...)
	}
}

// text appends text with the escapes of JSON or of RFC 4180.
func (f *fields) text(name, value string) {
	switch {
	case !f.next(name):
	case f.format == CSV && strings.ContainsAny(value, "\",\r\n"):
		f.buffer = append(append(append(f.buffer, '"'), strings.ReplaceAll(value, `"`, `""`)...), '"')
	case f.format == JSONL && strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r >= 0x7f }):
		quoted, err := json.Marshal(value)
		if err != nil { // a string always can be
			panic(err)
		}
		f.buffer = append(f.buffer, quoted...)
	default:
		f.quote()
		f.buffer = append(f.buffer, value...)
		f.quote()
	}
}

// The sets of device kinds as written in Parquet, JSON and CSV.
var kindsList, kindsJSON, kindsText = writeKinds()

func writeKinds() (lists [2 << len(schemas.Kinds)][]string, asJSON, asText [2 << len(schemas.Kinds)]string) {
	for set := range lists {
		lists[set] = schemas.KindSet(set).Words()
		text, err := json.Marshal(lists[set])
		if err != nil {
			panic(err)
		}
		asJSON[set], asText[set] = string(text), strings.Join(lists[set], "|")
	}
	return lists, asJSON, asText
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
