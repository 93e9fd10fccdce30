package schemas

import (
	"strconv"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// NamedRow is the name of the user of one row of a frame. The texts alias the frame's bytes.
type NamedRow struct {
	Row          int
	Tenant, Name []byte
}

// User is the name. It aliases the frame's bytes.
func (r *NamedRow) User() Name { return Name{Tenant: alias(r.Tenant), Text: alias(r.Name)} }

// AppendNamedRow appends the name of one row to a frame that AppendFrame has encoded. Rows come in
// ascending order, at most one name each.
func AppendNamedRow(dst []byte, row int, name Name) []byte {
	size := protowire.SizeTag(3) + protowire.SizeBytes(len(name.Text))
	if row != 0 {
		size += protowire.SizeTag(1) + protowire.SizeVarint(uint64(row))
	}
	if name.Tenant != "" {
		size += protowire.SizeTag(2) + protowire.SizeBytes(len(name.Tenant))
	}
	c := codec{dst: appendColumn(dst, fieldNamed, uint64(size))}
	c.write(1, int64(row))
	c.string(2, name.Tenant)
	c.string(3, name.Text)
	return c.dst
}

// NameCursor walks the names of a frame.
type NameCursor struct{ rest []byte }

// Named reports whether rows of the frame have names.
func (f *Frame) Named() bool { return f.named != nil }

// Names is a cursor before the first name.
func (f *Frame) Names() NameCursor { return NameCursor{rest: f.named} }

// Next reads the next name; false when there is none.
func (c *NameCursor) Next(row *NamedRow) bool {
	for len(c.rest) > 0 {
		number, _, _, bytes, rest := nextField(c.rest)
		if c.rest = rest; number == fieldNamed {
			return row.read(bytes)
		}
	}
	return false
}

// read reports false for anything unusual, a malformed value included.
func (r *NamedRow) read(value []byte) (usual bool) {
	*r = NamedRow{}
	for len(value) > 0 {
		number, kind, v, text, rest := nextField(value)
		switch isText := kind == protowire.BytesType; {
		case rest == nil || number <= 3 && isText != (number > 1) || isText && number <= 3 && !utf8.Valid(text):
			return false // also of a text that a later one replaces
		case number == 1:
			if v > MaxFrameRows {
				return false
			}
			r.Row = int(v)
		case number == 2:
			r.Tenant = text
		case number == 3:
			r.Name = text
		}
		value = rest
	}
	return true
}

// usualNames reports whether Names can read all names.
func (f *Frame) usualNames() bool {
	var row NamedRow
	for value := f.named; len(value) > 0; {
		number, kind, _, bytes, rest := nextField(value)
		if number == fieldNamed && (kind != protowire.BytesType || !row.read(bytes)) {
			return false
		}
		value = rest
	}
	return true
}

// checkNames holds the names to the rules of frame.proto.
func (f *Frame) checkNames() error {
	if f.named == nil {
		return nil
	}
	var row NamedRow
	for names, last, i := f.Names(), -1, 0; names.Next(&row); i++ {
		if row.Row > last && row.Row < f.rows && validTenant(alias(row.Tenant)) && validName(alias(row.Name)) {
			last = row.Row
			continue
		}
		field := rowField("named", i)
		if row.Row >= f.rows {
			return Invalid(field+".row", "is "+strconv.Itoa(row.Row)+" where the frame has "+strconv.Itoa(f.rows)+" rows")
		}
		if row.Row <= last {
			return Invalid(field+".row", "must be greater than the one before")
		}
		if err := CheckTenant(field+".tenant", string(row.Tenant)); err != nil {
			return err
		}
		return CheckName(field+".name", string(row.Name))
	}
	return nil
}

// alias is a string of bytes that nobody changes while it is used.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
