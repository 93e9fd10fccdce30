// Package strictjson reads JSON whose shape is known, and nothing else: unknown
// and repeated fields, wrong types, text after the end and half a document are
// errors that name the field as the sender would write it: beats[3].user_id.
//
// Numbers are never turned into floating point: an id beyond 2^53 stays exact.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"github.com/stillhere/stillhere/schemas"
)

// maxDepth is how deep Skip follows nested values.
const maxDepth = 64

// Reader walks through one document. The first error ends it: every error is a
// *schemas.FieldError and nothing more should be read after one.
type Reader struct {
	data []byte
	at   int
	root string
}

// NewReader reads data. root is the field that is named when data is no JSON,
// for example "body".
func NewReader(root string, data []byte) *Reader { return &Reader{data: data, root: root} }

// Document reads the one object that is the whole document: Object, and nothing
// but white space after it.
func (r *Reader) Document(field func(key []byte) error) error {
	err := r.Object(field)
	if err == nil {
		if r.peek(); r.at < len(r.data) {
			return r.malformed("there is something after its end")
		}
		return nil
	}
	var bad *schemas.FieldError
	if errors.As(err, &bad) && bad.Field == "" {
		return r.Within(r.root, err)
	}
	return err
}

// Object reads an object. field is called for each key in order and must read
// its value; key is valid during the call.
func (r *Reader) Object(field func(key []byte) error) error {
	if r.peek() != '{' {
		return r.unexpected("an object")
	}
	r.at++
	if r.peek() == '}' {
		r.at++
		return nil
	}
	for {
		if r.peek() != '"' {
			return r.malformed("a key was expected")
		}
		key, err := r.text()
		if err != nil {
			return err
		}
		if r.peek() != ':' {
			return r.malformed("a colon was expected")
		}
		r.at++
		if err := field(key); err != nil {
			return err
		}
		if done, err := r.more('}'); done || err != nil {
			return err
		}
	}
}

// Array reads an array. element is called for each element and must read it;
// its errors are put under [i].
func (r *Reader) Array(element func(i int) error) error {
	if r.peek() != '[' {
		return r.unexpected("an array")
	}
	r.at++
	if r.peek() == ']' {
		r.at++
		return nil
	}
	for i := 0; ; i++ {
		if err := element(i); err != nil {
			return r.Within("["+strconv.Itoa(i)+"]", err)
		}
		if done, err := r.more(']'); done || err != nil {
			return err
		}
	}
}

// more reads what comes after an element: a comma or the end.
func (r *Reader) more(end byte) (done bool, err error) {
	switch r.peek() {
	case ',':
		r.at++
		return false, nil
	case end:
		r.at++
		return true, nil
	}
	return false, r.malformed(fmt.Sprintf("a comma or %c was expected", end))
}

// Scalar reads a string or a number and returns its text, valid as long as the
// document; a value of another type gives no text, which is neither an id nor a
// word. The text of a whole number has digits alone.
func (r *Reader) Scalar() ([]byte, error) {
	switch c := r.peek(); {
	case c == '"':
		return r.text()
	case c == '-' || c >= '0' && c <= '9':
		number, err := r.number()
		return whole(number), err
	}
	return nil, r.Skip()
}

// Alias is what Scalar returned, without a copy. It is valid while nobody changes the document.
func Alias(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }

// Int reads an integer between 0 and most, written as a number.
func (r *Reader) Int(field string, most int64) (int64, error) {
	c := r.peek()
	if c != '-' && (c < '0' || c > '9') {
		return 0, r.skipTo(outside(field, most))
	}
	number, err := r.number()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(whole(number)), 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, outside(field, most)
	}
	return n, nil
}

func outside(field string, most int64) error {
	return schemas.Invalid(field, "must be a whole number between 0 and "+strconv.FormatInt(most, 10))
}

// Text reads a string.
func (r *Reader) Text(field string) (string, error) {
	if r.peek() != '"' {
		return "", r.skipTo(schemas.Invalid(field, "must be a string"))
	}
	text, err := r.text()
	return string(text), err
}

// Bool reads true or false.
func (r *Reader) Bool(field string) (bool, error) {
	c := r.peek()
	if c != 't' && c != 'f' {
		return false, r.skipTo(schemas.Invalid(field, "must be true or false"))
	}
	return c == 't', r.Skip()
}

// skipTo is wrong, unless the value there is not even JSON.
func (r *Reader) skipTo(wrong error) error {
	if err := r.Skip(); err != nil {
		return err
	}
	return wrong
}

// Skip reads any value.
func (r *Reader) Skip() error { return r.skip(0) }

func (r *Reader) skip(depth int) error {
	if depth > maxDepth {
		return r.malformed("it is nested too deeply")
	}
	switch c := r.peek(); {
	case c == '{':
		return r.Object(func([]byte) error { return r.skip(depth + 1) })
	case c == '[':
		return r.Array(func(int) error { return r.skip(depth + 1) })
	case c == '"':
		_, err := r.text()
		return err
	case c == '-' || c >= '0' && c <= '9':
		_, err := r.number()
		return err
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if len(r.data)-r.at >= len(word) && string(r.data[r.at:r.at+len(word)]) == word {
			r.at += len(word)
			return nil
		}
	}
	return r.malformed("a value was expected")
}

// text reads a string whose opening quote is next.
func (r *Reader) text() ([]byte, error) {
	from := r.at
	escaped := false
	for i := r.at + 1; i < len(r.data); i++ {
		switch c := r.data[i]; {
		case c == '"':
			r.at = i + 1
			token := r.data[from:r.at]
			if !utf8.Valid(token) {
				return nil, r.malformed("it is not UTF-8")
			}
			if !escaped {
				return token[1 : len(token)-1], nil
			}
			if !paired(token) {
				return nil, r.malformed("half of a surrogate pair is escaped, which is not UTF-8")
			}
			var s string
			if json.Unmarshal(token, &s) != nil {
				return nil, r.malformed("an escape sequence is wrong")
			}
			return []byte(s), nil
		case c == '\\':
			escaped = true
			i++
		case c < ' ':
			r.at = i
			return nil, r.malformed("a control character is not escaped")
		}
	}
	r.at = len(r.data)
	return nil, r.malformed("it ends in the middle of a string")
}

// UTF8 reports whether text is UTF-8, also where escape sequences stand for characters. encoding/json
// would read U+FFFD in place of what is not, so that two names became one.
func UTF8(text []byte) bool { return utf8.Valid(text) && paired(text) }

// paired reports whether text escapes both halves of every surrogate pair, or neither.
func paired(text []byte) bool {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		switch r := escape(text[i:]); {
		case !utf16.IsSurrogate(r):
			i++
		case utf16.DecodeRune(r, escape(text[i+6:])) == utf8.RuneError:
			return false
		default:
			i += 11
		}
	}
	return true
}

// escape is the code unit that text begins with as an escape sequence of four digits; -1: none.
func escape(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(unit)
}

// number reads a number as RFC 8259 defines it.
func (r *Reader) number() ([]byte, error) {
	from := r.at
	digits := func() bool {
		start := r.at
		for r.at < len(r.data) && r.data[r.at] >= '0' && r.data[r.at] <= '9' {
			r.at++
		}
		return r.at > start
	}
	accept := func(a, b byte) bool {
		if r.at < len(r.data) && (r.data[r.at] == a || r.data[r.at] == b) {
			r.at++
			return true
		}
		return false
	}
	accept('-', '-')
	zero := r.at < len(r.data) && r.data[r.at] == '0'
	start := r.at
	if !digits() || zero && r.at > start+1 {
		return nil, r.malformed("a number is wrong")
	}
	if accept('.', '.') && !digits() {
		return nil, r.malformed("a number is wrong")
	}
	if accept('e', 'E') {
		accept('+', '-')
		if !digits() {
			return nil, r.malformed("a number is wrong")
		}
	}
	return r.data[from:r.at], nil
}

// whole writes a number without fraction and exponent, exactly: 1.0 and 10e-1 are 1, as in JSON
// Schema. Anything else stays as it is, as does what is so long that it is not worth reading.
func whole(number []byte) []byte {
	const longest, longestExponent = 64, 4
	if !bytes.ContainsAny(number, ".eE") || len(number) > longest {
		return number
	}
	if e := bytes.IndexAny(number, "eE"); e >= 0 && len(number)-e > longestExponent {
		return number
	}
	value, ok := new(big.Rat).SetString(string(number))
	if !ok || !value.IsInt() {
		return number
	}
	return value.Num().Append(nil, 10)
}

// peek is the next byte that is not white space; 0 at the end.
func (r *Reader) peek() byte {
	for ; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}
