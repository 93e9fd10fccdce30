package policy

import (
	"strings"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

func TestACommandWritesOnlyWhatDetectorsTake(t *testing.T) {
	t.Parallel()
	type commits = map[int32]*schemas.Checkpoint
	signed := func(masters ...string) *schemas.Checkpoint { return &schemas.Checkpoint{Masters: masters} }
	for name, c := range map[string]struct {
		commits commits
		masters []string
		fault   string
	}{
		"no detector ran":                 {commits{}, nil, "start the detectors first"},
		"no detector ran, with keys":      {commits{}, []string{"a"}, "start the detectors first"},
		"unsigned":                        {commits{0: signed()}, nil, ""},
		"unsigned, with keys":             {commits{0: signed()}, []string{"a"}, ""},
		"signed":                          {commits{0: signed("a"), 1: signed("b", "a")}, []string{"a", "b"}, ""},
		"without keys":                    {commits{0: signed("a")}, nil, "is needed"},
		"without keys, in some partition": {commits{0: signed(), 1: signed("a"), 2: signed()}, nil, "is needed"},
		"under another master":            {commits{0: signed("a")}, []string{"b"}, "signed by a"},
		"the first master signs":          {commits{0: signed("a")}, []string{"b", "a"}, "signed by a"},
	} {
		if err := checkSigned(c.commits, c.masters); (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %q", name, err, c.fault)
		}
	}
}
