package laws

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/stillhere/stillhere/"

// pkg is a package of this module, named without the module.
type pkg struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Dir                                string
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

func TestEachDriverHasOneHome(t *testing.T) {
	homes := []struct {
		client  string
		allowed []string
		why     string
	}{
		{"github.com/twmb/franz-go", []string{"internal/stream", "internal/standin", "internal/e2e"}, "rooms hand the loop handlers and never see a Kafka client"},
		{"github.com/redis/go-redis", []string{"lastseen/redisview", "fanout/redisbus", "internal/e2e"}, "what Redis is used for must fit behind a small interface"},
		{"github.com/jackc/pgx", []string{"internal/postgres", "lastseen/pgstore", "fanout/pggraph", "internal/pgtest", "internal/e2e"}, "the durable store has a contract that SQLite keeps as well"},
		{"modernc.org/sqlite", []string{"lastseen/sqlitestore", "fanout/sqlitegraph"}, "the durable store has a contract that Postgres keeps as well"},
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

func TestTheDecisionIsPure(t *testing.T) {
	forbidden := []string{"context", "log", "log/slog", "sync", "sync/atomic", "net", "net/http", "os", "math/rand", "math/rand/v2"}
	each(t, func(p pkg, imported string, test bool) {
		if under(p, "detector/liveness") && !test && (slices.Contains(forbidden, imported) || isClient(imported)) {
			t.Errorf("%s imports %s: the same records must give the same transitions on any machine, so the machine has no clock, context, goroutine, logger or client", p.ImportPath, imported)
		}
	})
	out, err := exec.Command("grep", "-rnE", `time\.(Now|Since|After|Sleep|Tick|NewTimer)|\bgo func|\bgo [a-z]+\(`, "--include=*.go", "--exclude=*_test.go", filepath.Join("..", "..", "detector", "liveness")).Output()
	if len(out) > 0 {
		t.Errorf("the decision has a clock or a goroutine:\n%s", out)
	}
	if exit := new(exec.ExitError); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Error(err)
	}
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
// import it.
func each(t *testing.T, f func(p pkg, imported string, test bool)) {
	t.Helper()
	command := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports,Dir", "./...")
	command.Dir = filepath.Join("..", "..")
	out, err := command.Output()
	if err != nil {
		t.Fatalf("listing the packages: %v", err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		for _, imported := range p.Imports {
			f(p, imported, false)
		}
		for _, imported := range append(p.TestImports, p.XTestImports...) {
			if imported != p.ImportPath && !slices.Contains(p.Imports, imported) {
				f(p, imported, true)
			}
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
