package plan

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/stillhere/stillhere/tools/output"
)

// figure writes a value with its unit: 43.3 M/s, 24.2 TB, 6,100 USD.
func figure(l *Line, currency string) string {
	switch l.Unit {
	case currency:
		return output.Grouped(int64(math.Round(l.Value))) + " " + currency
	case "B", "B/s", "/s":
		return strings.TrimSuffix(short(l.Value), " ") + l.Unit
	}
	if l.Value == math.Trunc(l.Value) && l.Value < 1e6 {
		return output.Grouped(int64(l.Value))
	}
	return strings.TrimSpace(short(l.Value))
}

// Text writes plans side by side, a column each, as a Markdown table. Each line has its
// formula, and the unit costs follow with their sources.
func Text(out io.Writer, plans ...*Plan) error {
	var b strings.Builder
	b.WriteString("| part | what |")
	for _, p := range plans {
		fmt.Fprintf(&b, " %s users", strings.ReplaceAll(strings.TrimSpace(short(float64(p.Workload.Users))), " ", ""))
		if p.Workload.Held < 1 {
			fmt.Fprintf(&b, ", held %g", p.Workload.Held)
		}
		b.WriteString(" |")
	}
	rule := "|---|---|" + strings.Repeat("---:|", len(plans)) + "---|"
	b.WriteString(" from |\n" + rule + "\n")
	part := ""
	for i, l := range plans[0].Lines {
		shown := l.Part
		if shown == part {
			shown = ""
		}
		part = l.Part
		fmt.Fprintf(&b, "| %s | %s |", shown, l.Name)
		for _, p := range plans {
			fmt.Fprintf(&b, " %s |", figure(&p.Lines[i], p.Prices.Currency))
		}
		fmt.Fprintf(&b, " %s |\n", l.Formula)
	}
	plans[0].sources(&b)
	_, err := io.WriteString(out, b.String())
	return err
}

// sources writes the unit costs and the prices.
func (p *Plan) sources(b *strings.Builder) {
	const header = "\nUnit costs, on: %s\n\n| unit cost | value | measured | by |\n|---|---:|---|---|\n"
	fmt.Fprintf(b, header, p.Units.Machine)
	for _, name := range unitNames {
		u := p.Units.Units[name]
		by := u.By
		switch {
		case u.Assumed:
			by = "assumed, not measured: " + by
		case u.Chosen:
			by = "chosen, not measured: " + by
		}
		if u.Note != "" {
			by += " (" + u.Note + ")"
		}
		fmt.Fprintf(b, "| %s | %s %s | %s | %s |\n", name, strings.TrimSpace(short(u.Value)), u.Unit, u.At, by)
	}
	fmt.Fprintf(b, "\nPrices of %s: %s. %s %g, %s %g an hour; disk %g a GB and month; between zones %g a GB.\n",
		p.Prices.Date, p.Prices.Source,
		p.Prices.Node.Name, p.Prices.Node.Hour, p.Prices.MemoryNode.Name, p.Prices.MemoryNode.Hour,
		p.Prices.DiskMonth, p.Prices.ZoneTransfer)
}
