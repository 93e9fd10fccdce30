package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

func TestUsersWithoutARowAreSaid(t *testing.T) {
	var f sourceFlags
	for id := range schemas.UserID(9) {
		f.asked = append(f.asked, namedUser{id: id + 1})
	}
	f.asked = append(f.asked, namedUser{id: 2}) // twice
	u := f.unseen()
	u.see(1)
	u.see(1)
	u.see(77)
	var out strings.Builder
	u.write(&out)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 6 || !strings.Contains(lines[0], "no row of user 2:") || !strings.Contains(lines[5], "no rows of 3 more users") {
		t.Errorf("got %q", lines)
	}
	all := (&sourceFlags{}).unseen()
	all.see(5)
	out.Reset()
	if all.write(&out); out.Len() > 0 {
		t.Errorf("nobody was asked for, and it says %q", out.String())
	}
}

func TestTwoInstantsAreRefused(t *testing.T) {
	for line, want := range map[string]string{
		"asof -10m --at -1s ann":            "--at: one instant can be given, and not both -10m and -1s",
		"asof -1s -2s ann":                  "not both -1s and -2s",
		"asof 2026-11-23T23:12 --at -20m a": "<time>, --at: one instant can be given, and not both 2026-11-23T23:12 and -20m",
		"asof --at -1s now ann":             "not both now and -1s",
		"explain ann --at -1s --at=-2s":     "not both -1s and -2s",
	} {
		code, _, errs := stillhere(t, "", strings.Fields(line)...)
		if code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: code %d, %s", line, code, errs)
		}
	}
	for _, args := range []givenArguments{
		{"asof", "--at=-1s", "1763939520000"}, {"asof", "--at=-1s", "ann"}, {"asof", "--at", "-1s", "--", "now"}, {"asof", "now", "ann"},
	} {
		first := args[len(args)-1]
		if args[1] == "now" {
			first = "now"
		}
		if err := args.checkInstants(first); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestAFolderIsNoFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	f := dataFlags{Out: folder}
	if _, err := f.create(); err == nil || !strings.Contains(err.Error(), "--out: "+folder) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(folder + ".partial"); err == nil {
		t.Error("a partial file is left")
	}
}

func TestLongDurationsAreInDays(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{11088*time.Hour + 47*time.Minute: "462 days", 47 * time.Hour: "47h0m0s", 48 * time.Hour: "2 days"} {
		if got := lasting(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}

func TestAnExportCountsWhatItWrites(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	c := &counter{Writer: &out}
	if n, err := c.Write([]byte("{}")); n != 2 || err != nil || c.bytes != 2 || out.String() != "{}" {
		t.Errorf("%d, %v: %d bytes, %q", n, err, c.bytes, out.String())
	}
}
