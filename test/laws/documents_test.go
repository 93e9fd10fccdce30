package laws

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestNoLinkOfADocumentIsDead(t *testing.T) {
	for _, path := range filesOf(t, ".") {
		if filepath.Ext(path) != ".md" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			to, _, _ := strings.Cut(found[1], "#")
			if to == "" || strings.Contains(to, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), to)); err != nil {
				t.Errorf("%s names %s, which is not there", path, to)
			}
		}
	}
}

var (
	quoted   = regexp.MustCompile("`([^`\n]+)`")
	fileName = regexp.MustCompile(`^[\w./-]+\.(go|lua)$`)
)

func TestEveryFileOfAServiceIsInItsFileMap(t *testing.T) {
	for _, service := range []string{"schemas", "ingest", "detector", "lastseen", "fanout", "internal/kafka", "internal/embedded"} {
		design, err := os.ReadFile(filepath.Join(root, service, "DESIGN.md"))
		if err != nil {
			t.Fatal(err)
		}
		named := map[string]bool{}
		for _, found := range quoted.FindAllStringSubmatch(string(design), -1) {
			named[strings.TrimSuffix(found[1], "/")] = true
		}
		there := map[string]bool{}
		for _, path := range filesOf(t, service) {
			file, err := filepath.Rel(filepath.Join(root, service), path)
			if err != nil {
				t.Fatal(err)
			}
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
