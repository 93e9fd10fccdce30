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
		fault   string
	}{
		"no detector ran":                 {nil, nil, ""},
		"unsigned":                        {[]Partition{signed(0)}, nil, ""},
		"unsigned, with keys":             {[]Partition{signed(0)}, []string{"a"}, ""},
		"signed":                          {[]Partition{signed(0, "a"), signed(1, "b", "a")}, []string{"a", "b"}, ""},
		"without keys":                    {[]Partition{signed(0, "a")}, nil, "is needed"},
		"without keys, in some partition": {[]Partition{signed(0), signed(1, "a"), signed(2)}, nil, "is needed"},
		"under another master":            {[]Partition{signed(0, "a")}, []string{"b"}, "signed by a"},
		"the first master signs":          {[]Partition{signed(0, "a")}, []string{"b", "a"}, "signed by a"},
	} {
		if err := refused(c.commits, c.masters); (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %q", name, err, c.fault)
		}
	}
}
