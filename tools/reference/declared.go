package reference

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// scope knows the constants of a file, and the parameters of a helper that declares metrics.
type scope struct {
	texts  map[string]string
	lists  map[string][]ast.Expr
	labels map[string]ast.Expr
}

// metricsOf reads a file: literals of prometheus.…Opts and calls of NewDesc, directly or in a
// helper that gets the name as a parameter.
func metricsOf(path string) ([]Metric, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	constants := constantsOf(file)
	var all []Metric
	var faults error
	visit(file, func(node ast.Node, above []ast.Node) {
		declared, ok := declaration(node, above)
		if !ok || faults != nil {
			return
		}
		if m, ok := constants.metric(declared); ok {
			all = append(all, m)
			return
		}
		name, params := helper(above)
		used := 0
		visit(file, func(call ast.Node, around []ast.Node) {
			c, ok := call.(*ast.CallExpr)
			if f, named := identOf(c); !ok || !named || f != name {
				return
			}
			inner, of := constants.with(params, c.Args), declared
			if of.labels == nil {
				of.labels = labelsOf(around)
			}
			if m, ok := inner.metric(of); ok {
				used++
				all = append(all, m)
			}
		})
		if used == 0 {
			faults = fmt.Errorf("%s: the name of this metric cannot be read here", set.Position(node.Pos()))
		}
	})
	return all, faults
}

// declared is a place where metrics are declared.
type declared struct {
	kind                             string
	namespace, subsystem, name, help ast.Expr
	labels, constLabels              ast.Expr
}

func declaration(node ast.Node, above []ast.Node) (declared, bool) {
	switch n := node.(type) {
	case *ast.CompositeLit:
		kind, ok := n.Type.(*ast.SelectorExpr)
		if !ok || kind.Sel.Name != "CounterOpts" && kind.Sel.Name != "GaugeOpts" && kind.Sel.Name != "HistogramOpts" {
			return declared{}, false
		}
		d := declared{kind: strings.ToLower(strings.TrimSuffix(kind.Sel.Name, "Opts")), labels: labelsOf(above)}
		for _, element := range n.Elts {
			pair := element.(*ast.KeyValueExpr)
			switch pair.Key.(*ast.Ident).Name {
			case "Namespace":
				d.namespace = pair.Value
			case "Subsystem":
				d.subsystem = pair.Value
			case "Name":
				d.name = pair.Value
			case "Help":
				d.help = pair.Value
			case "ConstLabels":
				d.constLabels = pair.Value
			}
		}
		return d, true
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "NewDesc" && len(n.Args) == 4 {
			return declared{kind: "gauge", name: n.Args[0], help: n.Args[1], labels: n.Args[2]}, true
		}
	}
	return declared{}, false
}

// labelsOf are those of the innermost call of New…Vec around an expression.
func labelsOf(above []ast.Node) ast.Expr {
	for _, node := range slices.Backward(above) {
		if _, inside := node.(*ast.FuncLit); inside {
			return nil
		}
		call, ok := node.(*ast.CallExpr)
		if !ok {
			continue
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); ok && strings.HasSuffix(f.Sel.Name, "Vec") && len(call.Args) == 2 {
			return call.Args[1]
		}
	}
	return nil
}

// helper is the innermost function around a declaration, and its parameters.
func helper(above []ast.Node) (name string, params *ast.FieldList) {
	for i, node := range slices.Backward(above) {
		switch n := node.(type) {
		case *ast.FuncDecl:
			return n.Name.Name, n.Type.Params
		case *ast.FuncLit:
			if assign, ok := above[i-1].(*ast.AssignStmt); ok {
				if id, ok := assign.Lhs[0].(*ast.Ident); ok {
					return id.Name, n.Type.Params
				}
			}
		}
	}
	return "", nil
}

// identOf is the name of the function that is called.
func identOf(call *ast.CallExpr) (string, bool) {
	if call == nil {
		return "", false
	}
	id, ok := call.Fun.(*ast.Ident)
	if !ok {
		return "", false
	}
	return id.Name, true
}

// visit calls each for every node, with the nodes around it from the outermost.
func visit(file *ast.File, each func(node ast.Node, above []ast.Node)) {
	var above []ast.Node
	ast.Inspect(file, func(node ast.Node) bool {
		if node == nil {
			above = above[:len(above)-1]
			return true
		}
		each(node, above)
		above = append(above, node)
		return true
	})
}

func constantsOf(file *ast.File) scope {
	s := scope{texts: map[string]string{}}
	ast.Inspect(file, func(node ast.Node) bool {
		if group, ok := node.(*ast.GenDecl); ok && group.Tok == token.CONST {
			for _, spec := range group.Specs {
				values := spec.(*ast.ValueSpec)
				for i, name := range values.Names {
					if i < len(values.Values) {
						if text, ok := s.text(values.Values[i]); ok {
							s.texts[name.Name] = text
						}
					}
				}
			}
		}
		return true
	})
	return s
}

// with is the scope of a helper that is called with these arguments.
func (s scope) with(params *ast.FieldList, args []ast.Expr) scope {
	inner := scope{texts: map[string]string{}, lists: map[string][]ast.Expr{}, labels: map[string]ast.Expr{}}
	for name, text := range s.texts {
		inner.texts[name] = text
	}
	for _, field := range params.List {
		_, variadic := field.Type.(*ast.Ellipsis)
		for _, name := range field.Names {
			switch {
			case variadic:
				inner.lists[name.Name], args = args, nil
			case len(args) > 0:
				if text, ok := s.text(args[0]); ok {
					inner.texts[name.Name] = text
				} else {
					inner.labels[name.Name] = args[0]
				}
				args = args[1:]
			}
		}
	}
	return inner
}

// metric is what a declaration says in this scope.
func (s scope) metric(d declared) (Metric, bool) {
	m := Metric{Kind: d.kind}
	for _, part := range []ast.Expr{d.namespace, d.subsystem, d.name} {
		if part == nil {
			continue
		}
		text, ok := s.text(part)
		if !ok {
			return m, false
		}
		if m.Name != "" {
			m.Name += "_"
		}
		m.Name += text
	}
	if m.Kind == "gauge" && strings.HasSuffix(m.Name, "_total") { // a description does not say
		m.Kind = "counter"
	}
	help, ok := s.text(d.help)
	m.Help, m.Labels = help, append(s.list(d.constLabels), s.list(d.labels)...)
	return m, ok
}

// text is the value of an expression of strings.
func (s scope) text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		text, ok := s.texts[e.Name]
		return text, ok
	case *ast.BinaryExpr:
		left, ok1 := s.text(e.X)
		right, ok2 := s.text(e.Y)
		return left + right, ok1 && ok2
	}
	return "", false
}

// list is the value of a list of labels, or of the keys of a map of them.
func (s scope) list(e ast.Expr) (all []string) {
	add := func(e ast.Expr) {
		if text, ok := s.text(e); ok {
			all = append(all, text)
		}
	}
	switch e := e.(type) {
	case *ast.CompositeLit:
		for _, element := range e.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				element = pair.Key
			}
			add(element)
		}
	case *ast.CallExpr: // append
		for _, argument := range e.Args {
			all = append(all, s.list(argument)...)
		}
	case *ast.Ident:
		for _, element := range s.lists[e.Name] {
			add(element)
		}
		if other, ok := s.labels[e.Name]; ok {
			all = append(all, s.list(other)...)
		}
	}
	return all
}
