package laws

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

const root = "../.."

// filesOf are the files under a folder of the repository, without those that tools
// and servers leave there.
func filesOf(t *testing.T, folder string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (strings.HasPrefix(name, ".") && name != ".." || name == "stillhere-data" || name == "node_modules") {
			return filepath.SkipDir
		}
		if !d.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	must.Do(t, err)
	return all
}

const repository = "https://github.com/stillhere/stillhere/blob/main/"

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestNoLinkOfADocumentIsDead(t *testing.T) {
	for _, path := range filesOf(t, ".") {
		if filepath.Ext(path) != ".md" {
			continue
		}
		text := must.Get(os.ReadFile(path))(t)
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			to, fragment, _ := strings.Cut(found[1], "#")
			target := path
			if inside, ours := strings.CutPrefix(to, repository); ours { // of a document that is read elsewhere too
				target = filepath.Join(root, inside)
			} else if strings.Contains(to, "://") {
				continue
			} else if to != "" {
				target = filepath.Join(filepath.Dir(path), to)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s names %s, which is not there", path, to)
			} else if filepath.Ext(target) == ".md" && fragment != "" && !headings(t, target)[fragment] {
				t.Errorf("%s names %s, but %s has no such heading", path, found[1], target)
			}
		}
	}
}

var (
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	unnamed = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	fenced  = regexp.MustCompile("(?ms)^ *```(\\w*)[^`\n]*\n(.*?)^ *```$")
)

// headings are the fragments by which forges name the headings of a document.
func headings(t *testing.T, path string) map[string]bool {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	all := map[string]bool{}
	for _, found := range heading.FindAllStringSubmatch(string(text), -1) {
		all[strings.ReplaceAll(unnamed.ReplaceAllString(strings.ToLower(found[1]), ""), " ", "-")] = true
	}
	return all
}

// test/process runs the blocks of sh; blocks of Go are parts of examples; bridges_test.go checks those of bridges.
func TestTestsRunWhatTheDocumentsShow(t *testing.T) {
	var code strings.Builder
	for _, path := range filesOf(t, "client") {
		if strings.HasSuffix(path, "_test.go") {
			text := must.Get(os.ReadFile(path))(t)
			code.WriteString(strings.Join(strings.Fields(string(text)), " "))
		}
	}
	for _, path := range filesOf(t, "docs") {
		text := must.Get(os.ReadFile(path))(t)
		if filepath.Ext(path) != ".md" || strings.Contains(path, "reference") {
			continue
		}
		for _, found := range fenced.FindAllStringSubmatch(string(text), -1) {
			switch language, block := found[1], strings.Join(strings.Fields(found[2]), " "); {
			case language == "sh", strings.Contains(filepath.ToSlash(path), "/bridges/"):
			case language != "go":
				t.Errorf("%s has a block that no test runs; mark commands as sh: %.60s", path, block)
			case !strings.Contains(code.String(), block):
				t.Errorf("%s has Go that is in no example of client: %.60s", path, block)
			}
		}
	}
}

// sdk/js/check.mjs compiles the blocks of TypeScript of its README, and tests run what those of Python call.
func TestTheReadmeShowsCodeThatIsCompiledOrRun(t *testing.T) {
	read := func(path string) string {
		t.Helper()
		text := must.Get(os.ReadFile(filepath.Join(root, path)))(t)
		return string(text)
	}
	checked := map[string]string{"ts": "sdk/js/README.md", "python": "sdk/python-example/README.md"}
	shown := map[string]bool{}
	for _, block := range fenced.FindAllStringSubmatch(read("README.md"), -1) {
		language, code := block[1], block[2]
		path := checked[language]
		if path == "" {
			continue
		}
		shown[language] = true
		if !strings.Contains(read(path), code) {
			t.Errorf("README.md has %s that is not in %s: %.60s", language, path, code)
		}
	}
	for language := range checked {
		if !shown[language] {
			t.Errorf("README.md shows no %s", language)
		}
	}
}

var (
	quoted   = regexp.MustCompile("`([^`\n]+)`")
	fileName = regexp.MustCompile(`^[\w./-]+\.(go|lua)$`)
)

func TestEveryFileOfAServiceIsInItsFileMap(t *testing.T) {
	for _, service := range []string{"schemas", "ingest", "detector", "lastseen", "fanout", "internal/kafka", "internal/embedded"} {
		design := must.Get(os.ReadFile(filepath.Join(root, service, "DESIGN.md")))(t)
		named := map[string]bool{}
		for _, found := range quoted.FindAllStringSubmatch(string(design), -1) {
			named[strings.TrimSuffix(found[1], "/")] = true
		}
		there := map[string]bool{}
		for _, path := range filesOf(t, service) {
			file := must.Get(filepath.Rel(filepath.Join(root, service), path))(t)
			file = filepath.ToSlash(file)
			base := filepath.Base(file)
			there[file], there[base] = true, true
			if filepath.Ext(file) != ".go" || base == "doc.go" || strings.HasSuffix(file, "_test.go") {
				continue
			}
			on := named[file] || named[base]
			for folder := filepath.Dir(file); folder != "." && !on; folder = filepath.Dir(folder) {
				on = named[folder] || named[filepath.Base(folder)]
			}
			if !on {
				t.Errorf("%s: %s is not in the file map of DESIGN.md: the map names every file with its idea", service, file)
			}
		}
		for name := range named {
			if fileName.MatchString(name) && !there[name] && !strings.Contains(name, "/") {
				t.Errorf("%s: DESIGN.md names %s, which does not exist", service, name)
			}
		}
	}
}
