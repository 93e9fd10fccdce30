package loadtest

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// WriteText writes the report for a terminal.
func (r *Report) WriteText(out io.Writer) error {
	var b strings.Builder
	for _, result := range r.Results {
		fmt.Fprintf(&b, "%s: %s\n", result.Name, result.What)
		for _, f := range result.Figures {
			line := fmt.Sprintf("  %-52s %12s %-9s", f.Name, Number(f.Value), f.Unit)
			if f.Target != 0 {
				line += "  target " + f.target()
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		for _, note := range result.Notes {
			fmt.Fprintf(&b, "  %s\n", note)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

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
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
