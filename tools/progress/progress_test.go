package progress

import (
	"bytes"
	"testing"
)

// onTerminal is a line on a terminal of so many columns.
func onTerminal(columns int) (*Line, *bytes.Buffer) {
	var out bytes.Buffer
	return &Line{out: &out, live: true, columns: func() int { return columns }}, &out
}

func TestTheNewestTextIsShownBeforeTheLineIsCleared(t *testing.T) {
	t.Parallel()
	l, out := onTerminal(80)
	l.Say("%d of 3", 1)
	l.Say("%d of 3", 2)
	l.Say("%d of 3", 3)
	l.Note("bad line")
	l.Clear()
	if want := "\r1 of 3\r      \rbad line\n\r3 of 3\r      \r"; out.String() != want {
		t.Errorf("wrote %q, want %q", out, want)
	}
}

func TestAShorterTextLeavesNothingOfALongerOne(t *testing.T) {
	t.Parallel()
	l, out := onTerminal(0)
	l.put("größer")
	l.put("klein")
	if want := "\rgrößer\rklein "; out.String() != want {
		t.Errorf("wrote %q, want %q", out, want)
	}
}

func TestATextIsCutToTheWidthOfTheTerminalByItsParts(t *testing.T) {
	t.Parallel()
	const text = "[##..]  50%  3 rows  1 rows/s"
	for columns, want := range map[int]string{0: text, 80: text, 30: text, 29: "[##..]  50%  3 rows", 20: "[##..]  50%  3 rows", 19: "[##..]  50%", 6: "[##..", 1: text} {
		if l, _ := onTerminal(columns); l.fit(text) != want {
			t.Errorf("%d columns: %q, want %q", columns, l.fit(text), want)
		}
	}
}

func TestOutputOnTheSameTerminalHasLinesOfItsOwn(t *testing.T) {
	t.Parallel()
	l, out := onTerminal(80)
	rows := l.Writer(out)
	l.Say("half")
	for _, row := range []string{"a\n", "b\n"} {
		if _, err := rows.Write([]byte(row)); err != nil {
			t.Fatal(err)
		}
	}
	l.Clear()
	if want := "\rhalf\r    \ra\nb\n"; out.String() != want {
		t.Errorf("wrote %q, want %q", out, want)
	}
}

func TestNothingIsShownWhereThereIsNoTerminal(t *testing.T) {
	t.Parallel()
	l, out := onTerminal(80)
	l.live = false
	l.Say("half")
	l.Clear()
	if out.Len() > 0 {
		t.Errorf("wrote %q", out)
	}
}
