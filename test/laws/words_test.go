package laws

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// ban is a word of the first design and the standard term of the glossary in docs.
type ban struct{ words, use string }

// banned may not be words of names, log messages, help and metric descriptions. A name is
// split at capitals and underscores.
var banned = []ban{
	{"house", "builder"},
	{"room rooms", "service, or deps for a struct of dependencies"},
	{"door doors nodoor", "endpoint, handler or HTTP server"},
	{"wires", "subscriber connections"},
	{"crew ears", "spec, pollers"},
	{"revive", "restart partition"},
	{"patience", "backoff"},
	{"witness witnesses", "sentinel keys"},
	{"crowd", "load generator, simulated users"},
	{"fate", "fault plan"},
	{"stranger strangers", "unauthenticated caller, or another user"},
	{"whoever", "name the actor"},
	{"anew", "again, restart from, recreated"},
	{"told", "delivered, sent, reported"},
	{"alone", "without group, only"},
	{"void", "superseded"},
	{"stretch stretches", "session writer, range, span"},
}

// bannedNames may not be words of names.
var bannedNames = []ban{
	{"tell tells", "report, send, deliver"},
}

// bannedPhrases may not be in log messages, help and metric descriptions.
var bannedPhrases = []ban{
	{"who hides", "a hidden user"},
	{"who is here", "present users, online users"},
	{"lives with", "minimum compatible schema"},
	{"live with them", "minimum compatible schema"},
	{"dead letter topic", "dead-letter topic"},
	{"set aside", "sent to the dead-letter topic"},
	{" hides", "a hidden user"},
	{"made anew", "recreated"},
	{"as they must be", "expected"},
	{"when left out", "default"},
}

// allowed are names with a banned word that users have: a command, flags, a prefix of metrics.
var allowed = []string{"Crowd", "Anew"}

// wordsOf splits a name at capitals, digits and underscores.
func wordsOf(name string) []string {
	var words []string
	var word strings.Builder
	runes := []rune(name)
	flush := func() {
		if word.Len() > 0 {
			words = append(words, strings.ToLower(word.String()))
			word.Reset()
		}
	}
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			flush()
			continue
		case unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			flush()
		}
		word.WriteRune(r)
	}
	flush()
	return words
}

// faultOf returns the banned word of a name or text, and what to write instead.
func faultOf(text string, prose bool) (word, use string) {
	if slices.Contains(allowed, text) {
		return "", ""
	}
	for _, a := range allowed {
		if prose && strings.Contains(a, " ") {
			text = strings.ReplaceAll(text, a, "")
		}
	}
	bans, words := banned, wordsOf(text)
	if prose {
		for _, ban := range bannedPhrases {
			if strings.Contains(strings.ToLower(text), ban.words) {
				return ban.words, ban.use
			}
		}
	} else {
		bans = slices.Concat(banned, bannedNames)
	}
	for _, ban := range bans {
		for _, word := range strings.Fields(ban.words) {
			if slices.Contains(words, word) {
				return word, ban.use
			}
		}
	}
	return "", ""
}

// said is a name or a text that users or other packages see.
type said struct {
	what, text string
	at         token.Pos
	prose, key bool
}

var (
	logMethods = []string{"Debug", "Info", "Warn", "Error", "Log", "DebugContext", "InfoContext", "WarnContext", "ErrorContext"}
	logKey     = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

// collect returns what a file shows to others: exported names, log messages and keys, names
// and descriptions of metrics, and help of flags.
func collect(file *ast.File) (all []said) {
	name := func(what string, id *ast.Ident) {
		if id != nil && id.IsExported() {
			all = append(all, said{what: what, text: id.Name, at: id.Pos()})
		}
	}
	text := func(what string, e ast.Expr, prose, key bool) {
		for _, lit := range literals(e) {
			if value, err := strconv.Unquote(lit.Value); err == nil {
				all = append(all, said{what, value, lit.Pos(), prose, key})
			}
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncDecl:
			name("function", n.Name)
		case *ast.TypeSpec:
			name("type", n.Name)
		case *ast.Field:
			for _, id := range n.Names {
				name("field", id)
			}
			if n.Tag != nil {
				tag, _ := strconv.Unquote(n.Tag.Value)
				for _, key := range []string{"help", "name", "group", "placeholder"} {
					if value := reflect.StructTag(tag).Get(key); value != "" {
						all = append(all, said{"flag's " + key, value, n.Tag.Pos(), key == "help", false})
					}
				}
			}
		case *ast.CallExpr:
			method, ok := n.Fun.(*ast.SelectorExpr)
			switch {
			case !ok || len(n.Args) == 0:
			case slices.Contains(logMethods, method.Sel.Name) && len(literals(n.Args[0])) > 0 && logs(method.X):
				text("log message", n.Args[0], true, false)
				for i := 1; i < len(n.Args); i += 2 {
					text("log key", n.Args[i], false, true)
				}
			case method.Sel.Name == "NewDesc":
				text("metric", n.Args[0], false, false)
			}
		case *ast.CompositeLit:
			if kind, ok := n.Type.(*ast.SelectorExpr); ok && strings.HasSuffix(kind.Sel.Name, "Opts") {
				for _, element := range n.Elts {
					if pair, ok := element.(*ast.KeyValueExpr); ok {
						switch key, _ := pair.Key.(*ast.Ident); key.Name {
						case "Name", "Namespace", "Subsystem":
							text("metric", pair.Value, false, false)
						case "Help":
							text("metric's help", pair.Value, true, false)
						}
					}
				}
			}
		}
		return true
	})
	for _, declared := range file.Decls {
		if group, ok := declared.(*ast.GenDecl); ok {
			for _, spec := range group.Specs {
				if values, ok := spec.(*ast.ValueSpec); ok {
					for _, id := range values.Names {
						name("name", id)
					}
				}
			}
		}
	}
	return all
}

// logs reports whether e is named like a logger.
func logs(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.Contains(strings.ToLower(e.Name), "log")
	case *ast.SelectorExpr:
		return strings.Contains(strings.ToLower(e.Sel.Name), "log")
	case *ast.CallExpr:
		return logs(e.Fun)
	}
	return false
}

// literals are the strings of a literal or of a sum of literals.
func literals(e ast.Expr) []*ast.BasicLit {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			return []*ast.BasicLit{e}
		}
	case *ast.BinaryExpr:
		return append(literals(e.X), literals(e.Y)...)
	}
	return nil
}

func TestNamesLogsFlagsAndMetricsUseTheGlossary(t *testing.T) {
	seen := map[string]int{}
	for _, path := range filesOf(t, ".") {
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") || strings.Contains(path, "testdata") ||
			strings.Contains(filepath.ToSlash(path), root+"/test/") {
			continue
		}
		set := token.NewFileSet()
		file := must.Get(parser.ParseFile(set, path, nil, parser.SkipObjectResolution))(t)
		for _, s := range collect(file) {
			seen[s.what]++
			if s.key && !logKey.MatchString(s.text) {
				t.Errorf("%s: the log key %q must be snake_case", set.Position(s.at), s.text)
			}
			if word, use := faultOf(s.text, s.prose); word != "" {
				t.Errorf("%s: the %s %q has the word %q; write: %s (glossary in docs)", set.Position(s.at), s.what, s.text, word, use)
			}
		}
	}
	for _, what := range []string{"function", "type", "field", "name", "log message", "log key", "metric", "metric's help", "flag's help"} {
		if seen[what] < 20 {
			t.Errorf("this test sees %d of %q: the code has another form now", seen[what], what)
		}
	}
}

func TestBannedWordsAreFound(t *testing.T) {
	const text = `package p
type Room struct{ TellUsers int; Bathroom int }
type flags struct { Listen string ` + "`help:\"Where the doors are.\"`" + ` }
func HTTPDoor() { log.Warn("a stranger waits", "lives with", 1, "user", 2) }
var _ = prometheus.GaugeOpts{Name: "doors_open", Help: "Users, who hides."}
func house() {}
`
	file := must.Get(parser.ParseFile(token.NewFileSet(), "p.go", text, parser.SkipObjectResolution))(t)
	var found []string
	for _, s := range collect(file) {
		if word, _ := faultOf(s.text, s.prose); word != "" {
			found = append(found, word)
		}
		if s.key && !logKey.MatchString(s.text) {
			found = append(found, s.text)
		}
	}
	slices.Sort(found)
	want := []string{"door", "doors", "doors", "lives with", "room", "stranger", "tell", "who hides"}
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}
