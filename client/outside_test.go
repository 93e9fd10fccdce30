package client_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// TestAProgramOfAnotherModuleCompilesAndRuns has a module of its own, which knows this one by
// client and schemas alone.
func TestAProgramOfAnotherModuleCompilesAndRuns(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	must.Do(t, err)
	dir := t.TempDir()
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		must.Do(t, err)
		return string(text)
	}
	version := "go " + strings.Fields(read("../go.mod")[strings.Index(read("../go.mod"), "\ngo "):])[1]
	for name, text := range map[string]string{
		"main.go": read("testdata/outside/main.go.txt"),
		"go.sum":  read("../go.sum"),
		"go.mod": "module example.com/outside\n\n" + version + "\n\nrequire github.com/stillhere/stillhere v0.0.0\n\n" +
			"replace github.com/stillhere/stillhere => " + strconv.Quote(root) + "\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "synctests", "-mod=mod", "-o", "outside", ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "outside"), "nowhere").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "kafka.brokers: must be host:port") {
		t.Errorf("it says %q, %v", out, err)
	}
	depend := exec.CommandContext(t.Context(), "go", "list", "-deps", ".")
	depend.Dir, depend.Env = dir, append(build.Env, "GOFLAGS=-mod=mod")
	if out, err = depend.CombinedOutput(); err != nil || strings.Contains(string(out), "go.opentelemetry.io") {
		t.Errorf("it depends on tracing, or: %v", err)
	}
}

// TestNoExportedNameHasAnInternalType looks at declarations: what another module can name
// must be made of types that it can name.
func TestNoExportedNameHasAnInternalType(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "internal" || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		hidden := map[string]bool{} // package names
		for _, spec := range file.Imports {
			if from, _ := strconv.Unquote(spec.Path.Value); strings.Contains(from, "/internal/") {
				hidden[from[strings.LastIndex(from, "/")+1:]] = true
			}
		}
		for _, declared := range file.Decls {
			for _, node := range exported(declared) {
				ast.Inspect(node, func(n ast.Node) bool {
					if field, ok := n.(*ast.Field); ok && len(field.Names) > 0 && !field.Names[0].IsExported() && !isParameter(node, field) {
						return false
					}
					if s, ok := n.(*ast.SelectorExpr); ok {
						if of, ok := s.X.(*ast.Ident); ok && hidden[of.Name] {
							t.Errorf("%s: an exported declaration names %s.%s", path, of.Name, s.Sel.Name)
						}
					}
					return true
				})
			}
		}
		return nil
	})
	must.Do(t, err)
}

// exported are the parts of a declaration that another package sees.
func exported(declared ast.Decl) (parts []ast.Node) {
	switch d := declared.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || receiverIsExported(d.Recv.List[0].Type)) {
			parts = append(parts, d.Type)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					parts = append(parts, s.Type)
				}
			case *ast.ValueSpec:
				if s.Names[0].IsExported() && s.Type != nil {
					parts = append(parts, s.Type)
				}
			}
		}
	}
	return parts
}

func receiverIsExported(of ast.Expr) bool {
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	name, ok := of.(*ast.Ident)
	return !ok || name.IsExported()
}

// isParameter tells a parameter or result from a field of a struct.
func isParameter(of ast.Node, field *ast.Field) (found bool) {
	ast.Inspect(of, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncType); ok {
			for _, list := range []*ast.FieldList{f.Params, f.Results} {
				for i := 0; list != nil && i < len(list.List); i++ {
					found = found || list.List[i] == field
				}
			}
		}
		return !found
	})
	return found
}
