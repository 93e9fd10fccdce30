package policy

import (
	"strings"
	"testing"
)

func TestAProcessWritesOnlyWhatDetectorsTake(t *testing.T) {
	t.Parallel()
	signed := func(id int32, masters ...string) Partition { return Partition{ID: id, masters: masters} }
	for name, c := range map[string]struct {
		commits []Partition
		masters []string
		many    int
		fault   string
	}{
		"no detector ran":                 {nil, nil, 0, ""},
		"unsigned":                        {[]Partition{signed(0)}, nil, 0, ""},
		"unsigned, with keys":             {[]Partition{signed(0)}, []string{"a"}, 0, ""},
		"signed":                          {[]Partition{signed(0, "a"), signed(1, "b", "a")}, []string{"a", "b"}, 0, ""},
		"without keys":                    {[]Partition{signed(0, "a")}, nil, 1, "is needed"},
		"without keys, in some partition": {[]Partition{signed(0), signed(1, "a"), signed(2)}, nil, 1, "is needed"},
		"under another master":            {[]Partition{signed(0, "a")}, []string{"b"}, 1, "signed by a"},
		"in all partitions":               {[]Partition{signed(0, "a"), signed(1, "c")}, []string{"b"}, 2, "signed by c"},
		"the first master signs":          {[]Partition{signed(0, "a")}, []string{"b", "a"}, 1, "signed by a"},
	} {
		if many, err := refused(c.commits, c.masters); many != c.many || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: in %d partitions, %v, want %d and %q", name, many, err, c.many, c.fault)
		}
	}
}
