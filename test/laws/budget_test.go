package laws

import (
	"bytes"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// budget is how many lines of Go each top folder may have, of code and of tests. Comments, blank lines
// and generated files do not count. Tests are files _test.go, and all files of bench, test and
// internal/testkit. Whoever raises a number says why in the commit; whoever removes code lowers it.
var budget = map[string]struct{ code, tests int }{
	"app":      {4800, 2350},
	"bench":    {0, 2200},
	"client":   {1250, 1250},
	"cmd":      {6450, 1900},
	"console":  {2500, 1000},
	"deploy":   {800, 750},
	"detector": {7350, 4000},
	"fanout":   {7200, 8350},
	"ingest":   {2600, 2800},
	"internal": {16050, 14200},
	"lastseen": {9400, 9900},
	"schemas":  {3650, 2500},
	"test":     {0, 31200},
	"tools":    {5750, 2150},
}

func TestNoFolderIsOverItsBudget(t *testing.T) {
	for _, folder := range slices.Sorted(maps.Keys(budget)) {
		code, tests := linesOf(t, folder)
		for _, count := range []struct {
			what        string
			have, given int
		}{{"code", code, budget[folder].code}, {"tests", tests, budget[folder].tests}} {
			least := (count.have + 49) / 50 * 50
			switch {
			case count.have > count.given:
				t.Errorf("%s has %d lines of %s, its budget is %d: remove some, or raise the number in test/laws/budget_test.go to %d and say in the commit why they are worth it",
					folder, count.have, count.what, count.given, least)
			case least < count.given:
				t.Logf("%s has %d lines of %s, its budget is %d: lower the number in test/laws/budget_test.go to %d",
					folder, count.have, count.what, count.given, least)
			}
		}
	}
	for _, p := range packages(t) {
		_, folder := layerOf(p.ImportPath)
		if _, known := budget[folder]; !known {
			t.Errorf("%s has no budget: add it to test/laws/budget_test.go", folder)
		}
	}
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// linesOf counts the lines of a folder that have code.
func linesOf(t *testing.T, folder string) (code, tests int) {
	t.Helper()
	for _, path := range filesOf(t, folder) {
		if filepath.Ext(path) != ".go" {
			continue
		}
		text := must.Get(os.ReadFile(path))(t)
		relative, err := filepath.Rel(root, path)
		switch relative = filepath.ToSlash(relative); {
		case err != nil:
			t.Fatal(err)
		case generated.Match(text):
		case strings.HasSuffix(path, "_test.go"), folder == "bench", folder == "test", strings.HasPrefix(relative, "internal/testkit/"):
			tests += linesWithCode(text)
		default:
			code += linesWithCode(text)
		}
	}
	return code, tests
}

func linesWithCode(text []byte) int {
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(text))
	var tokens scanner.Scanner
	tokens.Init(file, text, nil, 0) // without comments
	count, last := 0, 0
	for {
		at, kind, literal := tokens.Scan()
		if kind == token.EOF {
			return count
		}
		first := set.Position(at).Line
		end := first + strings.Count(literal, "\n")
		if kind == token.SEMICOLON {
			end = first // its literal is the line's end
		}
		count += end - max(last, first-1)
		last = max(last, end)
	}
}

func TestLinesWithoutCodeDoNotCount(t *testing.T) {
	text := strings.Join([]string{"package p // of a test", "", "/* not", "a line */", "var s = `one", "", "three`", "// nor this", "func f() {", "\tg(1)", "}"}, "\n")
	if got := linesWithCode(bytes.TrimSpace([]byte(text))); got != 7 {
		t.Errorf("%d lines have code, want 7", got)
	}
}
