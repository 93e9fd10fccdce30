package loadtest

import (
	"math"
	"strconv"

	"github.com/stillhere/stillhere/tools/output"
)

// target is what a table says of the target: "≥ 15.0 ✓".
func (f *Figure) target() string {
	if f.Target == 0 {
		return ""
	}
	sign, mark := "≥ ", " ✓"
	if f.Less {
		sign = "≤ "
	}
	if !f.Reached() {
		mark = " ✗"
	}
	return sign + Number(f.Target) + mark
}

// Number has three significant digits at least, and groups of thousands.
func Number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return output.Grouped(int64(math.RoundToEven(v)))
}
