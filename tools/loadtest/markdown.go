package loadtest

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// WriteMarkdown writes the report as a page.
func (r *Report) WriteMarkdown(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# How fast\n\nMeasured by `bench` %s on %s.\n\n", r.Version, r.At.Format("2006-01-02 15:04 MST"))
	fmt.Fprintf(&b, "- Machine: %s, %d cores, %.0f GB, %s, %s\n- Kafka: %s\n", r.Machine.CPU, r.Machine.Cores, r.Machine.MemoryGB, r.Machine.System, r.Machine.Go, r.Kafka)
	if r.Redis != "" {
		fmt.Fprintf(&b, "- Reference: Redis %s, one key per user with a time to live, in the same run\n", r.Redis)
	}
	b.WriteString("\n| bench | what | figure | target | Redis | times better |\n|---|---|---:|---:|---:|---:|\n")
	for _, result := range r.Results {
		for i, f := range result.Figures {
			name := ""
			if i == 0 {
				name = result.Name
			}
			fmt.Fprintf(&b, "| %s | %s | %s %s | %s | %s | %s |\n", name, f.Name, Number(f.Value), f.Unit, f.target(), f.reference(), f.times())
		}
	}
	b.WriteString("\n")
	for _, result := range r.Results {
		fmt.Fprintf(&b, "- **%s**: %s; %s users, load average before %.1f, took %.0f s.", result.Name, result.What, users(result.Population), result.Load, result.Took)
		for _, note := range result.Notes {
			b.WriteString(" " + note)
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

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
			if f.Reference != 0 {
				line += fmt.Sprintf("  Redis %s: %s", f.reference(), f.times())
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

func (f *Figure) reference() string {
	if f.Reference == 0 {
		return ""
	}
	return Number(f.Reference)
}

func (f *Figure) times() string {
	if ratio := f.Ratio(); ratio != 0 {
		return Number(ratio) + "×"
	}
	return ""
}

func users(n int) string {
	if n == 0 {
		return "several numbers of"
	}
	return Number(float64(n))
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
