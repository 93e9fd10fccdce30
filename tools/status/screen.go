package status

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// View is what a screen shows, and how. The zero value shows that nothing was read yet.
type View struct {
	URL      string
	Overview *Overview // the newest; nil: none yet
	Err      error     // of the newest attempt; nil: Overview is current
	Since    time.Time // when Overview was read
	Now      time.Time

	Section int // index into sections
	Sort    int // column; sections are sorted as read by the first
	Down    bool
	Top     int // rows above the first one that is shown
}

// sections are what the lower part can show, by their keys.
var sections = []struct {
	key, name string
	table     func(*Overview) table
}{
	{"p", "partitions", partitions}, {"g", "gateways", gateways}, {"i", "instances", instances}, {"c", "groups", groups},
}

// Press changes the view as a key does. It reports whether the key ends it.
func (v *View) Press(key string) (quit bool) {
	switch key {
	case "q", "\x03", "\x1b": // Ctrl-C, Escape
		return true
	case "s":
		v.Sort, v.Top = v.Sort+1, 0
	case "r":
		v.Down = !v.Down
	case "j", "\x1b[B":
		v.Top++
	case "k", "\x1b[A":
		v.Top = max(0, v.Top-1)
	case " ", "\x1b[6~":
		v.Top += 10
	case "b", "\x1b[5~":
		v.Top = max(0, v.Top-10)
	case "\t":
		v.section((v.Section + 1) % len(sections))
	}
	for i, s := range sections {
		if key == s.key {
			v.section(i)
		}
	}
	return false
}

func (v *View) section(i int) { v.Section, v.Sort, v.Top, v.Down = i, 0, 0, false }

// minimum is the smallest screen that has room for something.
const minimumWidth, minimumHeight = 40, 12

// Screen is the lines of a screen, as many as it is high and none wider than it.
func (v *View) Screen(width, height int) []string {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	switch {
	case width < minimumWidth || height < minimumHeight:
		say("stillhere top needs %d x %d", minimumWidth, minimumHeight)
	case v.Overview == nil && v.Err == nil:
		say("stillhere top  %s", v.URL)
		say("")
		say("Connecting …")
	case v.Overview == nil:
		say("stillhere top  %s", v.URL)
		say("")
		say("Not connected: %v", v.Err)
		say("It is tried again each second. q quits.")
	default:
		lines = v.full(width, height)
	}
	return fit(lines, width, height)
}

func (v *View) full(width, height int) (lines []string) {
	o := v.Overview
	title := "stillhere top  " + v.URL
	at := o.At.Time().Format("15:04:05") + " UTC"
	lines = append(lines, title+strings.Repeat(" ", max(2, width-utf8.RuneCountInString(title)-len(at)))+at)
	if v.Err != nil {
		lines = append(lines, fmt.Sprintf("NOT CONNECTED for %s, this is old: %v", v.Now.Sub(v.Since).Round(time.Second), v.Err))
	}
	for _, line := range summary(o) {
		lines = append(lines, fmt.Sprintf("%-9s %s", line[0], line[1]))
	}
	problems := o.Problems
	most := max(1, min(len(problems), height/5))
	for i, p := range problems[:min(most, len(problems))] {
		name := map[bool]string{true: "problems"}[i == 0]
		if i == most-1 && len(problems) > most {
			p += fmt.Sprintf(" (and %d more)", len(problems)-most)
		}
		lines = append(lines, fmt.Sprintf("%-9s %s", name, p))
	}
	if len(problems) == 0 {
		lines = append(lines, fmt.Sprintf("%-9s %s", "problems", "none known"))
	}
	lines = append(lines, "")
	room := height - len(lines) - 3 // the name of the section, its head, the help
	return append(lines, v.lower(room)...)
}

// lower is the section, with room for so many rows, and the help.
func (v *View) lower(room int) []string {
	s := sections[v.Section]
	t := s.table(v.Overview)
	column := v.Sort % len(t.head)
	if v.Sort > 0 || v.Down {
		sortRows(t.rows, column, v.Down)
	}
	top := min(v.Top, max(0, len(t.rows)-room))
	shown := t.rows[top:min(len(t.rows), top+room)]
	name := fmt.Sprintf("%s: %d", s.name, len(t.rows))
	if len(shown) < len(t.rows) {
		name += fmt.Sprintf(", %d to %d", top+1, top+len(shown))
	}
	lines := append([]string{name}, columns(t.head, shown, column, v.Sort > 0 || v.Down, v.Down)...)
	for len(lines) < room+2 {
		lines = append(lines, "")
	}
	var keys []string
	for _, s := range sections {
		keys = append(keys, s.key+" "+s.name)
	}
	return append(lines, strings.Join(keys, "  ")+"  s sort  r reverse  q quit")
}

// columns lays rows out under their head. The column that they are sorted by is marked.
func columns(head []string, rows [][]string, sorted int, marked, down bool) []string {
	head = slices.Clone(head)
	if marked {
		head[sorted] += map[bool]string{false: "▲", true: "▼"}[down]
	}
	widths := make([]int, len(head))
	for _, row := range append([][]string{head}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var lines []string
	for _, row := range append([][]string{head}, rows...) {
		line := ""
		for i, cell := range row {
			line += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

// sortRows sorts by a column, numbers as such.
func sortRows(rows [][]string, column int, down bool) {
	value := func(cell string) (float64, bool) {
		n, err := strconv.ParseFloat(strings.TrimSuffix(strings.ReplaceAll(cell, ",", ""), "s"), 64)
		return n, err == nil
	}
	slices.SortStableFunc(rows, func(a, b []string) int {
		x, numberA := value(a[column])
		y, numberB := value(b[column])
		order := strings.Compare(a[column], b[column])
		if numberA && numberB {
			order = cmp.Compare(x, y)
		}
		if down {
			return -order
		}
		return order
	})
}

// fit cuts and fills lines to the size of a screen.
func fit(lines []string, width, height int) []string {
	all := make([]string, height)
	for i := range min(height, len(lines)) {
		line := []rune(printable(lines[i]))
		if len(line) > width {
			line = append(line[:max(0, width-1)], '…')
		}
		all[i] = strings.TrimRight(string(line), " ")
	}
	return all
}
