package status

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stillhere/stillhere/console"
	"github.com/stillhere/stillhere/schemas"
)

const unknown = "-"

// summary are the lines above the tables: a name and what is said of it.
func summary(o *Overview) [][2]string {
	var lines [][2]string
	users := unknown
	if c := o.Counts; c != nil {
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(c.ByKind)) {
			if c.ByKind[kind] > 0 {
				kinds = append(kinds, kind+" "+grouped(c.ByKind[kind]))
			}
		}
		users = grouped(c.Online) + " online, " + grouped(c.Away) + " away"
		if len(kinds) > 0 {
			users += " (" + strings.Join(kinds, ", ") + ")"
		}
	}
	lines = append(lines, [2]string{"users", users})
	lines = append(lines, [2]string{"a second", rate(o.Rates.Beats) + " beats, " + rate(o.Rates.Changes) + " changes, " + rate(o.Rates.Deliveries) + " deliveries"})
	policy := o.Policy.ID
	if o.Policy.Since != 0 {
		policy += " since " + o.Policy.Since.String()
	}
	lines = append(lines, [2]string{"policy", policy + ", " + settings(o.Policy.Settings, "heartbeat_interval", "online_ttl", "offline_debounce", "away_ttl")})
	var servers []string
	for _, d := range o.Dependencies {
		state := " ready"
		if !d.Ready {
			state = " NOT READY"
		}
		servers = append(servers, d.Name+state)
	}
	lines = append(lines, [2]string{"servers", orNone(servers)})
	return lines
}

// signing says whether heartbeats are signed, and have to be.
func signing(s *console.Signing) string {
	switch {
	case s == nil:
		return unknown
	case len(s.Masters) == 0:
		return "not signed, and taken from any producer"
	case s.Unsigned:
		return "signed under " + strings.Join(s.Masters, ", ") + "; SOME DETECTORS take unsigned ones, too"
	}
	return "signed under " + strings.Join(s.Masters, ", ") + "; unsigned ones are refused"
}

// settings are some settings of a policy, as flags have them.
func settings(all map[string]any, names ...string) string {
	var words []string
	for _, name := range names {
		if s, ok := all[name+"_seconds"].(float64); ok {
			words = append(words, name+" "+(time.Duration(s*float64(time.Second))).String())
		}
	}
	return strings.Join(words, ", ")
}

// table is rows under a head.
type table struct {
	head []string
	rows [][]string
}

func partitions(o *Overview) table {
	t := table{head: []string{"PARTITION", "OWNER", "PHASE", "LAG", "BEHIND", "READS' AGE"}}
	for _, p := range o.Partitions {
		t.rows = append(t.rows, []string{strconv.Itoa(int(p.Partition)), orUnknown(p.Owner), p.Phase, number(p.LagRecords), seconds(p.LagSeconds), seconds(p.WatermarkAgeSeconds)})
	}
	return t
}

func groups(o *Overview) table {
	t := table{head: []string{"GROUP", "STATE", "LAG", "MEMBERS"}}
	for _, g := range o.Groups {
		t.rows = append(t.rows, []string{g.Group, g.State, number(g.LagRecords), members(g.Members)})
	}
	return t
}

func members(all []console.Member) string {
	var words []string
	for _, m := range all {
		words = append(words, fmt.Sprintf("%s (%d)", m.Instance, len(m.Partitions)))
	}
	return orNone(words)
}

func instances(o *Overview) table {
	t := table{head: []string{"ROLE", "INSTANCE", "READY", "VERSION", "STARTED (UTC)", "HOST"}}
	for _, i := range o.Instances {
		ready := unknown
		if i.Ready != nil {
			ready = map[bool]string{true: "yes", false: "NO"}[*i.Ready]
		}
		started := unknown
		if i.StartedAt != 0 {
			started = i.StartedAt.Time().Format("2006-01-02 15:04:05")
		}
		t.rows = append(t.rows, []string{i.Role, i.Instance, ready, orUnknown(i.Version), started, i.Host})
	}
	return t
}

func gateways(o *Overview) table {
	t := table{head: []string{"GATEWAY", "STATE", "USERS", "LAST SEEN (UTC)", "STARTED (UTC)"}}
	for _, g := range o.Gateways {
		t.rows = append(t.rows, []string{g.Gateway, g.State, number(g.Users), clock(g.LastSeenAt, o.At), clock(g.Epoch, o.At)})
	}
	return t
}

// WriteText writes the overview as tables for people.
func WriteText(w io.Writer, o *Overview) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range append(summary(o), [2]string{"heartbeats", signing(o.Signing)}) {
		fmt.Fprintf(out, "%s\t%s\n", line[0], printable(line[1]))
	}
	problems := o.Problems
	if len(problems) == 0 {
		problems = []string{"none known"}
	}
	for i, p := range problems {
		fmt.Fprintf(out, "%s\t%s\n", map[bool]string{true: "problems"}[i == 0], printable(p))
	}
	for _, t := range []table{instances(o), partitions(o), groups(o), gateways(o)} {
		fmt.Fprintln(out)
		t.write(out)
	}
	return out.Flush()
}

// write writes the table with tabs between cells.
func (t table) write(out *tabwriter.Writer) {
	fmt.Fprintln(out, strings.Join(t.head, "\t"))
	for _, row := range t.rows {
		fmt.Fprintln(out, printable(strings.Join(row, "\x00")))
	}
}

// printable replaces control characters, which names of gateways may have; cells are separated by zeros.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == 0:
			return '\t'
		case !strconv.IsPrint(r):
			return '?'
		}
		return r
	}, text)
}

func orUnknown(text *string) string {
	if text == nil || *text == "" {
		return unknown
	}
	return *text
}

func orNone(words []string) string {
	if len(words) == 0 {
		return unknown
	}
	return strings.Join(words, ", ")
}

func number(n *int64) string {
	if n == nil {
		return unknown
	}
	return grouped(*n)
}

// grouped writes 1234567 as 1,234,567.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func rate(r *float64) string {
	switch {
	case r == nil:
		return unknown
	case *r >= 100:
		return grouped(int64(*r + 0.5))
	}
	return strconv.FormatFloat(*r, 'f', 1, 64)
}

func seconds(s *float64) string {
	if s == nil {
		return unknown
	}
	return strconv.FormatFloat(*s, 'f', 1, 64) + "s"
}

// clock is an instant, with its day unless that is the day of now.
func clock(at, now schemas.Millis) string {
	if at == 0 {
		return unknown
	}
	if at.Time().Format(time.DateOnly) == now.Time().Format(time.DateOnly) {
		return at.Time().Format(time.TimeOnly)
	}
	return at.Time().Format(time.DateTime)
}
