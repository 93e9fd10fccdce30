package output

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestColumnsAreAligned(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	table := NewTable(&out, "USER", "STATE", "NOTE")
	for _, row := range [][]string{{"1", "online", ""}, {"ann@example.com", "away", "b"}, {"Zoë", "offline", "c"}} {
		must.Do(t, table.Row(row...))
	}
	if out.Len() > 0 {
		t.Error("rows are written before their widths are known")
	}
	must.Do(t, table.Flush())
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
		must.Do(t, table.Row(fmt.Sprint(i)))
	}
	if lines := strings.Count(out.String(), "\n"); lines != 3*fitRows+1 {
		t.Errorf("%d lines, want %d", lines, 3*fitRows+1)
	}
}

func TestCellsDoNotReachTheTerminal(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	table := NewTable(&out, "NAME")
	must.Do(t, table.Row("a\x1b[2Jb\nc"))
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

func TestNamesThatLookAlikeCanBeToldApart(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"ann":            "ann",
		"Zoë ☃ 東京":       "Zoë ☃ 東京",
		"an\u200dn":      `an\u200dn`,
		"an\u200bn":      `an\u200bn`,
		"an\ufe0fn":      `an\ufe0fn`,
		"an\U000e0101n":  `an\U000e0101n`,
		"an\u034fn":      `an\u034fn`,
		"an\u3164n":      `an\u3164n`,
		"an\u2800n":      `an\u2800n`,
		"an\u00a0n":      `an\u00a0n`,
		"ann ":           `ann\x20`,
		" ann":           `\x20ann`,
		"an n":           "an n",
		"an\xffn":        `an\xffn`,
		"an\ufffdn":      "an\ufffdn",
		`an\u200dn`:      `an\\u200dn`,
		`acme\user`:      `acme\\user`,
		`a"b` + "\u200d": `a"b\u200d`,
		"👩\u200d👧":       `👩\u200d👧`,
	} {
		if got := Shown(name); got != want {
			t.Errorf("%+q is shown as %s, want %s", name, got, want)
		}
	}
}

func FuzzNoTwoCellsLookAlike(f *testing.F) {
	f.Add("ann", `an\u200dn`)
	f.Add("an\u200dn", `an\u200dn`)
	f.Add(`\x20`, " ")
	f.Fuzz(func(t *testing.T, a, b string) {
		if a != "" && b != "" && a != b && Shown(a) == Shown(b) {
			t.Errorf("%+q and %+q are both shown as %s", a, b, Shown(a))
		}
	})
}
