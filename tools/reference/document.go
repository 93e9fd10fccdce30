package reference

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is a part of an OpenAPI or AsyncAPI document; its maps keep their order.
type value struct{ node *yaml.Node }

// document reads YAML.
func document(text []byte) (value, error) {
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return value{}, err
	}
	return value{node.Content[0]}, nil
}

func (v value) there() bool { return v.node != nil }

// at returns what is below these keys, if it is there.
func (v value) at(keys ...string) value {
	for _, key := range keys {
		found := value{}
		v.each(func(name string, of value) {
			if name == key {
				found = of
			}
		})
		v = found
	}
	return v
}

// each calls f for every entry of a map, in order.
func (v value) each(f func(name string, of value)) {
	if v.node == nil || v.node.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		f(v.node.Content[i].Value, plain(v.node.Content[i+1]))
	}
}

// list are the elements of a list.
func (v value) list() (all []value) {
	if v.node != nil && v.node.Kind == yaml.SequenceNode {
		for _, element := range v.node.Content {
			all = append(all, plain(element))
		}
	}
	return all
}

// text is a single value.
func (v value) text() string {
	if v.node == nil || v.node.Kind != yaml.ScalarNode {
		return ""
	}
	return v.node.Value
}

func plain(node *yaml.Node) value {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return value{node}
}

// name is the last part of a reference to another place of the document.
func (v value) name() string {
	ref := v.at("$ref").text()
	return ref[strings.LastIndexByte(ref, '/')+1:]
}

// follow returns what a value refers to, or the value itself.
func (v value) follow(root value) value {
	if ref := v.at("$ref").text(); ref != "" {
		return root.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...).follow(root)
	}
	return v
}

// kind says in a few words what a schema accepts.
func kind(schema value) string {
	if name := schema.name(); name != "" {
		return fmt.Sprintf("[%s](#%s)", name, anchor(name))
	}
	var parts []string
	for _, word := range []string{"anyOf", "oneOf"} {
		for _, one := range schema.at(word).list() {
			if k := kind(one); k != "" {
				parts = append(parts, k)
			}
		}
	}
	if len(parts) > 0 {
		return strings.Join(parts, " or ")
	}
	if all := schema.at("enum").list(); len(all) > 0 {
		for _, one := range all {
			parts = append(parts, "`"+one.text()+"`")
		}
		return strings.Join(parts, ", ")
	}
	if only := schema.at("const").text(); only != "" {
		return "`" + only + "`"
	}
	types := []string{schema.at("type").text()}
	for _, one := range schema.at("type").list() {
		types = append(types, one.text())
	}
	for _, t := range types {
		switch {
		case t == "":
		case t == "array":
			parts = append(parts, "list of "+kind(schema.at("items")))
		case t == "object" && kind(schema.at("additionalProperties")) != "":
			parts = append(parts, "object of "+kind(schema.at("additionalProperties")))
		case schema.at("format").text() != "" && t == "string":
			parts = append(parts, schema.at("format").text())
		default:
			parts = append(parts, t)
		}
	}
	text := strings.Join(parts, " or ")
	if low, high := schema.at("minimum").text(), schema.at("maximum").text(); high != "" {
		text += " " + low + " to " + high
	}
	if most := schema.at("maxItems").text(); most != "" {
		text += ", at most " + most
	}
	if otherwise := schema.at("default").text(); otherwise != "" {
		text += ", default " + otherwise
	}
	return text
}

// fields writes the table of an object's fields, with those of the objects in it.
func fields(page *strings.Builder, schema value) {
	var rows strings.Builder
	rowsOf(&rows, "", schema)
	rowsOf(&rows, "[].", schema.at("items"))
	if rows.Len() > 0 {
		page.WriteString("\n| field | value | meaning |\n|---|---|---|\n" + rows.String())
	}
}

func rowsOf(rows *strings.Builder, prefix string, schema value) {
	schema.at("properties").each(func(name string, of value) {
		about := cell(of.at("description").text())
		fmt.Fprintf(rows, "| `%s%s` | %s | %s |\n", prefix, name, strings.ReplaceAll(kind(of), "|", `\|`), about)
		rowsOf(rows, prefix+name+".", of)
		rowsOf(rows, prefix+name+"[].", of.at("items"))
	})
	for _, one := range schema.at("anyOf").list() {
		rowsOf(rows, prefix, one)
	}
}

// schemas writes a section for each schema.
func schemas(page *strings.Builder, all value) {
	all.each(func(name string, of value) {
		fmt.Fprintf(page, "\n### %s\n", name)
		if about := of.at("description").text(); about != "" {
			page.WriteString("\n" + strings.TrimSpace(about) + "\n")
		}
		if !of.at("properties").there() {
			fmt.Fprintf(page, "\nValue: %s.\n", kind(of))
		}
		fields(page, of)
	})
}
