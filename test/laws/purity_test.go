package laws

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// What the decision may use. The same records must give the same transitions on any
// machine, so it has no clock, context, goroutine, logger or client: what is not named
// here needs a look first.
var (
	pureImports = []string{"cmp", "container/heap", "crypto/sha256", "encoding/binary", "encoding/hex", "errors", "fmt", "maps", "math", "math/bits", "slices", "sort", "strconv", "strings", "time", module + "detector/snapshot", module + "schemas"}
	pureTime    = []string{"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"}
)

func TestTheDecisionIsPure(t *testing.T) {
	n := 0
	for _, path := range slices.Concat(filesOf(t, "detector/liveness"), filesOf(t, "detector/snapshot")) { // of every build
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			continue
		}
		n++
		for _, fault := range impurities(t, path, nil) {
			t.Error(fault)
		}
	}
	if n == 0 {
		t.Error("the decision is not where this test looks for it")
	}
}

// impurities are the places of a file at which it uses what the decision must not.
func impurities(t *testing.T, path string, text any) (faults []string) {
	t.Helper()
	set := token.NewFileSet()
	file := must.Get(parser.ParseFile(set, path, text, parser.SkipObjectResolution))(t)
	fault := func(at token.Pos, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s: %s: the decision must be the same on any machine", set.Position(at), fmt.Sprintf(format, args...)))
	}
	clock := ""
	for _, spec := range file.Imports {
		imported := must.Get(strconv.Unquote(spec.Path.Value))(t)
		if !slices.Contains(pureImports, imported) {
			fault(spec.Pos(), "it imports %s", imported)
		}
		switch {
		case spec.Name != nil && spec.Name.Name == ".":
			fault(spec.Pos(), "what comes of the dot import of %s cannot be seen", imported)
		case imported == "time" && spec.Name != nil:
			clock = spec.Name.Name
		case imported == "time":
			clock = "time"
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.GoStmt:
			fault(n.Pos(), "it starts a goroutine")
		case *ast.SelectStmt, *ast.ChanType, *ast.SendStmt:
			fault(n.Pos(), "it speaks to another goroutine")
		case *ast.SelectorExpr:
			if from, ok := n.X.(*ast.Ident); ok && clock != "" && from.Name == clock && !slices.Contains(pureTime, n.Sel.Name) {
				fault(n.Pos(), "it uses time.%s", n.Sel.Name)
			}
		}
		return true
	})
	return faults
}

func TestImpuritiesAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		imports, body string
		faults        int
	}{
		"nothing":              {`"time"`, "_ = 3 * time.Second; var _ time.Duration", 0},
		"a comment":            {"", "// go func() waits for time.Now()", 0},
		"the clock":            {`"time"`, "_ = time.Now()", 1},
		"the clock as a value": {`"time"`, "now := time.Now; _ = now", 1},
		"a renamed clock":      {`clock "time"`, "_ = clock.Now()", 1},
		"a dot import":         {`. "time"`, "_ = Now()", 1},
		"a ticker":             {`"time"`, "_ = time.NewTicker(1)", 1},
		"a timer":              {`"time"`, "time.AfterFunc(1, nil)", 1},
		"a zone":               {`"time"`, "_ = time.Local", 1},
		"a goroutine":          {"", "go f()", 1},
		"a method's goroutine": {"", "var m struct{ f func() }; go m.f()", 1},
		"a literal's":          {"", "go func() {}()", 1},
		"a channel":            {"", "_ = make(chan int)", 1},
		"a select":             {"", "select {}", 1},
		"a lock":               {`"sync"`, "", 1},
		"the machine":          {`"runtime"`, "", 1},
		"chance":               {`"math/rand/v2"`, "", 1},
		"a client":             {`"github.com/twmb/franz-go/pkg/kgo"`, "", 1},
	} {
		text := "//go:build never\n\npackage p\n"
		if c.imports != "" {
			text += "import " + c.imports + "\n"
		}
		text += "func f() {\n" + c.body + "\n}\n"
		if faults := impurities(t, name+".go", text); len(faults) != c.faults {
			t.Errorf("%s: %d faults are found, want %d: %v", name, len(faults), c.faults, faults)
		}
	}
}
