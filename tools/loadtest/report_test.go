package loadtest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestTheReportSaysWhatWasReachedAndHowMuchBetterThatIs(t *testing.T) {
	t.Parallel()
	r := Report{Version: "v1", Redis: "7.0", Results: []Result{{Name: "silence", What: "x", Population: 1_000_000}}}
	result := &r.Results[0]
	result.Add("rate", 30, "M beats/s").AtLeast(15).Against(0.25)
	result.Add("lateness", 2500, "ms").AtMost(1000).Against(10_000)
	var page bytes.Buffer
	if err := r.WriteMarkdown(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| silence | rate | 30.0 M beats/s | ≥ 15.0 ✓ | 0.25 | 120× |",
		"|  | lateness | 2,500 ms | ≤ 1,000 ✗ | 10,000 | 4.00× |",
		"1,000,000 users",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%q is missing in\n%s", want, page.String())
		}
	}
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"less_is_better":true`) {
		t.Errorf("%s, %v", text, err)
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
