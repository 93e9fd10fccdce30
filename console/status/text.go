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
	"github.com/stillhere/stillhere/tools/output"
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
				kinds = append(kinds, kind+" "+output.Grouped(c.ByKind[kind]))
			}
		}
		users = output.Grouped(c.Online) + " online, " + output.Grouped(c.Away) + " away"
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

// WriteText writes the overview as tables for people.
func WriteText(w io.Writer, o *Overview) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range append(summary(o), [2]string{"heartbeats", signing(o.Signing)}) {
		fmt.Fprintf(out, "%s\t%s\n", line[0], output.Shown(line[1]))
	}
	problems := o.Problems
	if len(problems) == 0 {
		problems = []string{"none known"}
	}
	for i, p := range problems {
		fmt.Fprintf(out, "%s\t%s\n", map[bool]string{true: "problems"}[i == 0], output.Shown(p))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, name := range []string{"instances", "partitions", "groups", "gateways"} {
		fmt.Fprintln(w)
		if err := WriteTable(w, o, name); err != nil {
			return err
		}
	}
	return nil
}

func orNone(words []string) string {
	if len(words) == 0 {
		return unknown
	}
	return strings.Join(words, ", ")
}

func rate(r *float64) string {
	switch {
	case r == nil:
		return unknown
	case *r >= 100:
		return output.Grouped(int64(*r + 0.5))
	}
	return strconv.FormatFloat(*r, 'f', 1, 64)
}

func seconds(s *float64) string {
	if s == nil {
		return unknown
	}
	return strconv.FormatFloat(*s, 'f', 1, 64) + "s"
}
