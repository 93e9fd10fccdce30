package schemas

import (
	"errors"
	"strings"
	"testing"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

var ann = Name{"acme", "ann@example.org"}

func TestNamesThatDatabasesOrPathsCannotHoldAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []Name{
		{"", ""}, {"", strings.Repeat("n", 129)}, {"", "a\x00b"}, {"", "\xff"},
		{"a b", "n"}, {"a/b", "n"}, {strings.Repeat("t", 65), "n"}, {"ä", "n"}, {"acme", ""},
	} {
		var bad *FieldError
		if err := name.Check("user_id"); !errors.As(err, &bad) || bad.Field == "" {
			t.Errorf("%q: %v", name, err)
		}
		if name == (Name{}) {
			continue // a name that is not known yet
		}
		change := anyTransition()
		change.Name = name
		if _, err := DecodeTransition(change.Encode()); err == nil {
			t.Errorf("a transition of %q was accepted", name)
		}
	}
	for _, name := range []Name{{"", "ä"}, {"", strings.Repeat("n", 128)}, {"a.B-1_", "a/b c,%"}, {strings.Repeat("t", 64), "batch"}} {
		if err := name.Check("user_id"); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestWhatIsWrongWithANamedRowIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		named []*pb.NamedRow
		want  string
	}{
		{[]*pb.NamedRow{{Row: 2, Name: "n"}}, "named[0].row: is 2 where the frame has 2 rows"},
		{[]*pb.NamedRow{{Row: 1, Name: "n"}, {Row: 1, Name: "n"}}, "named[1].row: must be greater than the one before"},
		{[]*pb.NamedRow{{Name: "n"}, {Row: 1}}, "named[1].name: must be 1 to 128 bytes of UTF-8 without the character 0"},
		{[]*pb.NamedRow{{Name: "n", Tenant: "a b"}}, "named[0].tenant: must be at most 64 letters, digits, dots, hyphens and underscores"},
	} {
		value := encode(&pb.Frame{Version: 1, UserId: []int64{1, 2}, DeviceId: []uint32{1, 1}, Named: c.named})
		if _, err := byHand(value); err == nil || err.Error() != c.want {
			t.Errorf("%v: %v, want %s", c.named, err, c.want)
		}
	}
}

func TestReadingNamesAllocatesNothing(t *testing.T) { // not parallel: it counts allocations
	value := thousand()
	for row := range 1000 {
		value = AppendNamedRow(value, row, Name{"acme", "6f9619ff-8b86-d011-b42d-00c04fc964ff"})
	}
	var f Frame
	var row NamedRow
	read := 0
	if n := testing.AllocsPerRun(10, func() {
		if err := f.Decode(value); err != nil {
			t.Fatal(err)
		}
		for names := f.Names(); names.Next(&row); {
			read += len(row.Name)
		}
	}); n != 0 || read != 11*1000*36 {
		t.Errorf("%v allocations, %d bytes read", n, read)
	}
}
