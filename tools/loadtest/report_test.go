package loadtest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestTheReportSaysWhatWasReached(t *testing.T) {
	t.Parallel()
	r := Report{Version: "v1", Results: []Result{{Name: "silence", What: "x", Population: 1_000_000}}}
	result := &r.Results[0]
	result.Add("rate", 30, "M beats/s").AtLeast(15)
	result.Add("lateness", 2500, "ms").AtMost(1000)
	var page bytes.Buffer
	must.Do(t, r.WriteText(&page))
	text := strings.Join(strings.Fields(page.String()), " ")
	for _, want := range []string{"silence: x", "rate 30.0 M beats/s target ≥ 15.0 ✓", "lateness 2,500 ms target ≤ 1,000 ✗"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, page.String())
		}
	}
}

func TestQuantilesAreThoseOfTheSortedTimes(t *testing.T) {
	t.Parallel()
	var s Spread
	for i := range 100 {
		s = append(s, 0)
		s[i] = 1
	}
	if (Spread{}).At(0.5) != 0 || s.At(1) != 1 {
		t.Error("the quantiles of nothing and of equal times are wrong")
	}
	s = Spread{1, 2, 3, 4}
	if s.At(0.5) != 3 || s.At(0.99) != 4 || s.At(0) != 1 {
		t.Errorf("got %v %v %v", s.At(0.5), s.At(0.99), s.At(0))
	}
}
