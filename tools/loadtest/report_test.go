package loadtest

import "testing"

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
