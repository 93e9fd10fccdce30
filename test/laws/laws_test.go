package laws

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

const module = "github.com/stillhere/stillhere/"

// pkg is a package of this module, named without the module.
type pkg struct {
	ImportPath           string
	Imports, TestImports []string // of all builds; TestImports are of its tests
}

// layers are the top-level folders with Go code, from the highest layer to the lowest. A
// package imports only packages of its own folder and of lower layers. This holds for
// tests and for every build, without exemptions.
var layers = [][]string{
	{"cmd", "bench", "test"},
	{"console"},
	{"tools"},
	{"app"},
	{"ingest", "detector", "fanout", "lastseen", "client"},
	{"internal"},
	{"schemas"},
}

// layerOf returns the layer of a package of this module and its top-level folder. Layer 0
// is the highest; an unknown folder is layer -1.
func layerOf(path string) (layer int, folder string) {
	folder, _, _ = strings.Cut(strings.TrimPrefix(path, module), "/")
	return slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, folder) }), folder
}

func TestImportsPointDown(t *testing.T) {
	each(t, func(p pkg, imported string, _ bool) {
		if !ours(imported) {
			return
		}
		from, folder := layerOf(p.ImportPath)
		to, other := layerOf(imported)
		if from < 0 {
			t.Errorf("%s is in no layer of this test: add its folder to layers", p.ImportPath)
			return
		}
		switch {
		case folder == other || from < to:
		case from == to:
			t.Errorf("%s imports %s: packages of one layer do not import each other; move what both need one layer down", p.ImportPath, imported)
		default:
			t.Errorf("%s imports %s: imports point down only: %v", p.ImportPath, imported, layers)
		}
	})
}

func TestSchemasKnowNoClient(t *testing.T) {
	each(t, func(p pkg, imported string, test bool) {
		if under(p, "schemas") && !test && isClient(imported) {
			t.Errorf("%s imports %s: a message must not know by which client it travels", p.ImportPath, imported)
		}
	})
}

func TestSchemasDeclareNoInterface(t *testing.T) {
	for _, path := range filesOf(t, "schemas") {
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, ".pb.go") || strings.HasSuffix(path, "_test.go") {
			continue
		}
		file := must.Get(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
		ast.Inspect(file, func(node ast.Node) bool {
			if declared, ok := node.(*ast.TypeSpec); ok {
				if _, ok := declared.Type.(*ast.InterfaceType); ok {
					t.Errorf("schemas declares the interface %s: schemas holds the wire alone; what loops and services share is in internal/stream", declared.Name)
				}
			}
			return true
		})
	}
}

func TestEachDriverHasOneHome(t *testing.T) {
	homes := []struct {
		client  string
		allowed []string
		why     string
	}{
		{"github.com/twmb/franz-go", []string{"internal/kafka", "internal/embedded", "internal/testkit/bare", "test"}, "services hand the consumer loop handlers and never see a Kafka client"},
		{"github.com/redis/go-redis", []string{"internal/redis", "lastseen/redisview", "fanout/redisbus", "bench", "test"}, "what Redis is used for must fit behind a small interface"},
		{"github.com/jackc/pgx", []string{"internal/postgres", "lastseen/pgstore", "fanout/pggraph", "internal/testkit/pgtest", "test"}, "the durable store has a contract that SQLite keeps as well"},
		{"modernc.org/sqlite", []string{"internal/sqlite", "lastseen/sqlitestore", "fanout/sqlitegraph"}, "the durable store has a contract that Postgres keeps as well"},
		{"github.com/gobwas/ws", []string{"internal/socket"}, "how a WebSocket is made cheap is one decision, for all endpoints"},
	}
	each(t, func(p pkg, imported string, test bool) {
		for _, h := range homes {
			if !strings.HasPrefix(imported, h.client) || slices.ContainsFunc(h.allowed, func(a string) bool { return under(p, a) }) || test && !strings.HasPrefix(h.client, "github.com/twmb") {
				continue
			}
			t.Errorf("%s imports %s, whose home is %v: %s", p.ImportPath, imported, h.allowed, h.why)
		}
	})
}

// each calls f for every import of every package; test reports whether only tests
// import it. It reads all files, whatever their build tags: a law holds on every system
// and in every build.
func each(t *testing.T, f func(p pkg, imported string, test bool)) {
	t.Helper()
	for _, p := range packages(t) {
		for _, imported := range p.Imports {
			f(p, imported, false)
		}
		for _, imported := range p.TestImports {
			if imported != p.ImportPath && !slices.Contains(p.Imports, imported) {
				f(p, imported, true)
			}
		}
	}
}

// packages are those of this module.
var packages = func() func(t *testing.T) []pkg {
	var all []pkg
	return func(t *testing.T) []pkg {
		t.Helper()
		if all == nil {
			all = readPackages(t)
		}
		return all
	}
}()

func readPackages(t *testing.T) []pkg {
	t.Helper()
	found := map[string]*pkg{}
	for _, path := range filesOf(t, ".") {
		folder := must.Get(filepath.Rel(root, filepath.Dir(path)))(t)
		folder = filepath.ToSlash(folder)
		if filepath.Ext(path) != ".go" || slices.Contains(strings.Split(folder, "/"), "testdata") {
			continue
		}
		file := must.Get(parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly))(t)
		p := found[folder]
		if p == nil {
			p = &pkg{ImportPath: strings.TrimSuffix(module+folder, "/.")}
			found[folder] = p
		}
		imports := &p.Imports
		if strings.HasSuffix(path, "_test.go") {
			imports = &p.TestImports
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if !slices.Contains(*imports, imported) {
				*imports = append(*imports, imported)
			}
		}
	}
	all := make([]pkg, 0, len(found))
	for _, folder := range slices.Sorted(maps.Keys(found)) {
		all = append(all, *found[folder])
	}
	return all
}

func TestTheLawsSeeEveryBuild(t *testing.T) {
	for _, want := range []struct {
		folder, imported string
		test             bool
	}{
		{"internal/crashpoint", "os", false},                                    // with the tag crashpoints
		{"internal/embedded", "syscall", false},                                 // on Unix
		{"internal/kafka", "github.com/twmb/franz-go/pkg/kmsg", false},          // always
		{"test/virtual", "testing/synctest", true},                              // a test
		{"internal/kafka/looptest", "github.com/twmb/franz-go/pkg/kfake", true}, // a test with the tag synctests
	} {
		seen := false
		each(t, func(p pkg, imported string, test bool) {
			seen = seen || p.ImportPath == module+want.folder && imported == want.imported && test == want.test
		})
		if !seen {
			t.Errorf("that %s imports %s is not seen", want.folder, want.imported)
		}
	}
}

func ours(path string) bool { return strings.HasPrefix(path, module) }
func inside(path, folder string) bool {
	return path == module+folder || strings.HasPrefix(path, module+folder+"/")
}
func under(p pkg, folder string) bool { return inside(p.ImportPath, folder) }

func isClient(path string) bool {
	for _, c := range []string{"github.com/twmb/", "github.com/redis/", "github.com/jackc/", "modernc.org/sqlite"} {
		if strings.HasPrefix(path, c) {
			return true
		}
	}
	return false
}
