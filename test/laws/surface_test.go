package laws

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// A Go program outside this repository can use app and client only if it can name every type
// that it has to give them or gets from them.
func TestAppAndClientExposeNoInternalType(t *testing.T) {
	exports := exportData(t, "./app", "./client/...")
	lookup := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exports[path])
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", lookup)
	for _, path := range slices.Sorted(maps.Keys(exports)) {
		if layer, folder := layerOf(path); !ours(path) || layer < 0 || folder != "app" && folder != "client" || strings.Contains(path, "/internal/") {
			continue
		}
		pkg := must.Get(imports.Import(path))(t)
		for exposed, where := range internalTypes(pkg) {
			t.Errorf("%s exposes %s in %s: give %s a type of its own and convert it inside", path, exposed, where, path)
		}
	}
}

// exportData maps the packages and what they import to the files of their export data.
// Its build tag is that of the tests, whose packages are compiled already.
func exportData(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", append([]string{"list", "-tags", "synctests", "-export", "-deps", "-json=ImportPath,Export"}, patterns...)...)
	list.Dir = root
	var errs bytes.Buffer
	list.Stderr = &errs
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	files := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Export string }
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return files
		} else if err != nil {
			t.Fatal(err)
		}
		files[p.ImportPath] = p.Export
	}
}

// internalTypes returns the types of this module's internal packages in the exported
// signatures and fields of a package, each with one place that has it.
func internalTypes(pkg *types.Package) map[string]string {
	exposed := map[string]string{}
	var look func(where string, typ types.Type)
	signature := func(where string, s *types.Signature) {
		for _, tuple := range []*types.Tuple{s.Params(), s.Results()} {
			for v := range tuple.Variables() {
				look(where, v.Type())
			}
		}
	}
	look = func(where string, typ types.Type) {
		switch typ := typ.(type) {
		case *types.Named:
			if of := typ.Obj().Pkg(); of != nil && ours(of.Path()+"/") && strings.Contains(of.Path()+"/", "/internal/") {
				exposed[strings.TrimPrefix(of.Path(), module)+"."+typ.Obj().Name()] = where
			}
			for arg := range typ.TypeArgs().Types() {
				look(where, arg)
			}
		case *types.Alias:
			look(where, types.Unalias(typ))
		case *types.Pointer:
			look(where, typ.Elem())
		case *types.Slice:
			look(where, typ.Elem())
		case *types.Array:
			look(where, typ.Elem())
		case *types.Chan:
			look(where, typ.Elem())
		case *types.Map:
			look(where, typ.Key())
			look(where, typ.Elem())
		case *types.Signature:
			signature(where, typ)
		case *types.Struct:
			for field := range typ.Fields() {
				if field.Exported() {
					look(where+"."+field.Name(), field.Type())
				}
			}
		case *types.Interface:
			for method := range typ.Methods() {
				if method.Exported() {
					signature(where+"."+method.Name(), method.Signature())
				}
			}
		}
	}
	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		if named, ok := object.Type().(*types.Named); ok && named.Obj().Pkg() == pkg {
			look(name, named.Underlying())
			for method := range named.Methods() {
				if method.Exported() {
					signature(name+"."+method.Name(), method.Signature())
				}
			}
			continue
		}
		look(name, object.Type())
	}
	return exposed
}
