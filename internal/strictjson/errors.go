package strictjson

import (
	"errors"
	"strconv"

	"github.com/stillhere/stillhere/schemas"
)

// Unknown is the error for a key that is not known.
func Unknown(key []byte) error {
	return &schemas.FieldError{Code: "unknown_field", Field: string(key), Reason: "is not a known field"}
}

// Twice is the error for a key that is there a second time.
func Twice(key []byte) error {
	return &schemas.FieldError{Code: "repeated_field", Field: string(key), Reason: "is given twice"}
}

// Fields are the fields of an object, at most eight, each allowed once.
type Fields struct {
	Known []string
	seen  uint8 // a bit for each of Known
}

// Take returns the field of a key.
func (f *Fields) Take(key []byte) (string, error) {
	for i, name := range f.Known {
		if string(key) != name {
			continue
		}
		if f.seen&(1<<i) != 0 {
			return "", Twice(key)
		}
		f.seen |= 1 << i
		return name, nil
	}
	return "", Unknown(key)
}

// Within puts the field of err under outer: user_id in beats[3] is
// beats[3].user_id. Errors about the whole document stay as they are.
func (r *Reader) Within(outer string, err error) error {
	var bad *schemas.FieldError
	if errors.As(err, &bad) && bad.Code == "malformed" && bad.Field == r.root {
		return err
	}
	return Within(outer, err)
}

// Within is Reader.Within for errors of which none is about the whole document.
func Within(outer string, err error) error {
	var bad *schemas.FieldError
	if !errors.As(err, &bad) {
		return err
	}
	inner := *bad
	switch {
	case inner.Field == "":
		inner.Field = outer
	case inner.Field[0] == '[':
		inner.Field = outer + inner.Field
	default:
		inner.Field = outer + "." + inner.Field
	}
	return &inner
}

// unexpected is the error for a value of another type, or for none.
func (r *Reader) unexpected(want string) error {
	return r.skipTo(schemas.Invalid("", "must be "+want))
}

func (r *Reader) malformed(reason string) error {
	if r.at >= len(r.data) && r.peek() == 0 {
		reason = "it ends too early"
	}
	return &schemas.FieldError{Code: "malformed", Field: r.root,
		Reason: "is not valid JSON at byte " + strconv.Itoa(r.at) + ": " + reason}
}
