package laws

import (
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/stillhere/stillhere/"

// pkg is a package of this module, named without the module.
type pkg struct {
	ImportPath           string
	Imports, TestImports []string // of all builds; TestImports are of its tests
}

var rooms = []string{"ingest", "detector", "fanout", "lastseen"}

func TestTheGroundImportsNothingOfOurs(t *testing.T) {
	each(t, func(p pkg, imported string, test bool) {
		if under(p, "schemas") && ours(imported) && !inside(imported, "schemas") {
			t.Errorf("%s imports %s: schemas is what all others stand on, and what other languages copy; it must stand alone", p.ImportPath, imported)
		}
		if under(p, "schemas") && !test && isClient(imported) {
			t.Errorf("%s imports %s: a message must not know by which client it travels", p.ImportPath, imported)
		}
	})
}

func TestRoomsDoNotImportRooms(t *testing.T) {
	each(t, func(p pkg, imported string, test bool) {
		room := roomOf(p.ImportPath)
		if room == "" || !ours(imported) || inside(imported, room) || inside(imported, "schemas") {
			return
		}
		if p.ImportPath == module+"ingest/gateway" && (imported == module+"internal/stream" || test && imported == module+"internal/standin") {
			return // the wiring of other people's gateways, who cannot import internal packages themselves
		}
		if test && slices.Contains([]string{"internal/pgtest", "internal/redisfleet", "internal/keys", "internal/keys/keystest"}, strings.TrimPrefix(imported, module)) {
			return // servers and certificates for tests, which know no room
		}
		if imported == module+"internal/socket" {
			return // a driver that knows nothing of presence; the next test holds it to that
		}
		if imported == module+"internal/redact" {
			return // what may be told of a URL, the same everywhere; a test below holds it to knowing no room
		}
		if imported == module+"internal/crashpoint" {
			return // empty in every build but that of the tests that kill processes
		}
		if imported == module+"internal/migrate" {
			return // four stores of two rooms migrate alike; a test below holds it to knowing no room and no driver
		}
		if imported == module+"internal/sqlitefile" {
			return // two stores keep a file alike; a test below holds it to knowing no room
		}
		if imported == module+"internal/postgres" {
			return // two stores reach a server alike; a test below holds it to knowing no room
		}
		t.Errorf("%s imports %s: rooms meet on topics; what two must agree on lives in schemas, and only the wiring knows more than one", p.ImportPath, imported)
	})
}

func TestTheSocketDriverIsADriver(t *testing.T) {
	each(t, func(p pkg, imported string, _ bool) {
		if under(p, "internal/socket") && ours(imported) && !inside(imported, "internal/socket") {
			t.Errorf("%s imports %s: two rooms may use it only because it is like a module from elsewhere, which knows nothing of ours", p.ImportPath, imported)
		}
	})
}

func TestRedactingKnowsNothingOfOurs(t *testing.T) {
	each(t, func(p pkg, imported string, _ bool) {
		if under(p, "internal/redact") && ours(imported) {
			t.Errorf("%s imports %s: rooms may use it only because it knows none", p.ImportPath, imported)
		}
	})
}

func TestMigratingKnowsNoRoomAndNoDriver(t *testing.T) {
	each(t, func(p pkg, imported string, test bool) {
		if under(p, "internal/migrate") && !test && (ours(imported) && !inside(imported, "internal/migrate") || isClient(imported)) {
			t.Errorf("%s imports %s: it is given an open database/sql and the room's files, so that stores on different servers can share it", p.ImportPath, imported)
		}
	})
}

func TestReachingPostgresKnowsNoRoom(t *testing.T) {
	each(t, func(p pkg, imported string, _ bool) {
		if under(p, "internal/postgres") && ours(imported) && !inside(imported, "internal/postgres") && imported != module+"internal/migrate" {
			t.Errorf("%s imports %s: it knows of addresses and limits, not of what is kept there", p.ImportPath, imported)
		}
	})
}

func TestKeepingASQLiteFileKnowsNoRoom(t *testing.T) {
	each(t, func(p pkg, imported string, _ bool) {
		if under(p, "internal/sqlitefile") && ours(imported) && !inside(imported, "internal/sqlitefile") {
			t.Errorf("%s imports %s: it knows of files and whether they are whole, not of what is kept there", p.ImportPath, imported)
		}
	})
}

func TestEachDriverHasOneHome(t *testing.T) {
	homes := []struct {
		client  string
		allowed []string
		why     string
	}{
		{"github.com/twmb/franz-go", []string{"internal/stream", "internal/standin", "internal/e2e"}, "rooms hand the loop handlers and never see a Kafka client"},
		{"github.com/redis/go-redis", []string{"lastseen/redisview", "fanout/redisbus", "internal/e2e"}, "what Redis is used for must fit behind a small interface"},
		{"github.com/jackc/pgx", []string{"internal/postgres", "lastseen/pgstore", "fanout/pggraph", "internal/pgtest", "internal/e2e"}, "the durable store has a contract that SQLite keeps as well"},
		{"modernc.org/sqlite", []string{"internal/sqlitefile", "lastseen/sqlitestore", "fanout/sqlitegraph"}, "the durable store has a contract that Postgres keeps as well"},
		{"github.com/gobwas/ws", []string{"internal/socket"}, "how a WebSocket is made cheap is one decision, for all doors"},
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

func TestOnlyTheWiringNamesTwoRooms(t *testing.T) {
	wiring := []string{"internal/assembly", "internal/e2e", "cmd"}
	seen := map[string][]string{}
	each(t, func(p pkg, imported string, _ bool) {
		if room := roomOf(imported); room != "" && roomOf(p.ImportPath) == "" && !slices.Contains(seen[p.ImportPath], room) {
			seen[p.ImportPath] = append(seen[p.ImportPath], room)
		}
	})
	for path, named := range seen {
		if len(named) > 1 && !slices.ContainsFunc(wiring, func(w string) bool { return inside(path, w) }) {
			t.Errorf("%s names the rooms %v: a file that names two rooms belongs in internal/assembly", path, named)
		}
	}
}

// each calls f for every import of every package; test tells whether only tests
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
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		folder = filepath.ToSlash(folder)
		if filepath.Ext(path) != ".go" || slices.Contains(strings.Split(folder, "/"), "testdata") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
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
		{"internal/crashpoint", "os", false},                            // with the tag crashpoints
		{"internal/standin", "syscall", false},                          // on Unix
		{"internal/stream", "github.com/twmb/franz-go/pkg/kmsg", false}, // always
		{"internal/e2e", "testing/synctest", true},                      // a test
		{"internal/stream", "github.com/twmb/franz-go/pkg/kfake", true}, // a test with the tag synctests
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

func roomOf(path string) string {
	for _, room := range rooms {
		if inside(path, room) {
			return room
		}
	}
	return ""
}
