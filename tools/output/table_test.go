package output

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

func TestColumnsAreAligned(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	table := NewTable(&out, "USER", "STATE", "NOTE")
	for _, row := range [][]string{{"1", "online", ""}, {"ann@example.com", "away", "b"}, {"Zoë", "offline", "c"}} {
		if err := table.Row(row...); err != nil {
			t.Fatal(err)
		}
	}
	if out.Len() > 0 {
		t.Error("rows are written before their widths are known")
	}
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	const want = "" +
		"USER             STATE    NOTE\n" +
		"1                online   -\n" +
		"ann@example.com  away     b\n" +
		"Zoë              offline  c\n"
	if out.String() != want {
		t.Errorf("got:\n%swant:\n%s", out.String(), want)
	}
	if err := table.Row("2", "online", ""); err != nil || !strings.HasSuffix(out.String(), "\n2                online   -\n") {
		t.Errorf("a row after the widths are known is not written at once: %v\n%s", err, out.String())
	}
}

func TestALongTableIsWrittenAsItComes(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	table := NewTable(&out, "N")
	for i := range 3 * fitRows {
		if err := table.Row(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if lines := strings.Count(out.String(), "\n"); lines != 3*fitRows+1 {
		t.Errorf("%d lines, want %d", lines, 3*fitRows+1)
	}
}

func TestCellsDoNotReachTheTerminal(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	table := NewTable(&out, "NAME")
	if err := table.Row("a\x1b[2Jb\nc"); err != nil {
		t.Fatal(err)
	}
	if err := table.Flush(); err != nil || out.String() != "NAME\n"+`a\x1b[2Jb\nc`+"\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func TestInstantsAreInUTCAndSpansAreShort(t *testing.T) {
	t.Parallel()
	at := schemas.MillisOf(time.Date(2026, 11, 20, 10, 0, 0, 123e6, time.FixedZone("", 3600)))
	for got, want := range map[string]string{
		Instant(at): "2026-11-20 09:00:00.123", Instant(0): "", Span(1234567 * time.Microsecond): "1.235s",
		Span(90*time.Minute + 1234*time.Millisecond): "1h30m1s",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
