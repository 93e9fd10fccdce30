package reference

import (
	"fmt"
	"slices"
	"strings"
)

// HTTP is the page of the endpoints, from the OpenAPI document.
func HTTP(openapi []byte) (string, error) {
	root, err := document(openapi)
	if err != nil {
		return "", err
	}
	var page strings.Builder
	page.WriteString(made + "# HTTP\n\n" + strings.TrimSpace(root.at("info", "description").text()) + "\n\n" +
		"From [openapi.yaml](../../schemas/openapi.yaml), served at `/openapi.yaml`. Every answer that is not\n" +
		"listed is an [Error](#error). 429 and 503 say in `Retry-After` when to try again.\n")
	root.at("paths").each(func(path string, of value) { endpoint(&page, root, "", path, of) })
	page.WriteString("\n## Webhooks\n\nRequests that `stillhere channel webhook` sends.\n")
	root.at("webhooks").each(func(name string, of value) { endpoint(&page, root, "#", name, of) })
	page.WriteString("\n## Schemas\n")
	schemas(&page, root.at("components", "schemas"))
	return page.String(), nil
}

// endpoint writes the operations of a path, or of a webhook one level (#) deeper.
func endpoint(page *strings.Builder, root value, deeper, path string, of value) {
	if of.at("x-websocket").there() && !of.at("get").there() {
		fmt.Fprintf(page, "\n## %s\n\n%s %s\n", path, of.at("summary").text(), of.at("description").text())
	}
	of.each(func(method string, operation value) {
		if !slices.Contains([]string{"get", "put", "post", "delete"}, method) {
			return
		}
		fmt.Fprintf(page, "\n##%s %s %s\n\n%s\n", deeper, strings.ToUpper(method), path, operation.at("summary").text())
		if about := operation.at("description").text(); about != "" {
			page.WriteString("\n" + strings.TrimSpace(about) + "\n")
		}
		if all := append(of.at("parameters").list(), operation.at("parameters").list()...); len(all) > 0 {
			page.WriteString("\n| parameter | in | value | meaning |\n|---|---|---|---|\n")
			for _, p := range all {
				p = p.follow(root)
				about := cell(p.at("description").text())
				fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", p.at("name").text(), p.at("in").text(), kind(p.at("schema")), about)
			}
		}
		content(page, "Body", operation.at("requestBody", "content"))
		operation.at("responses").each(func(code string, answer value) {
			if answer.name() == "Error" { // the introduction has it
				return
			}
			answer = answer.follow(root)
			fmt.Fprintf(page, "\n**%s**: %s\n", code, strings.TrimSpace(answer.at("description").text()))
			answer.at("headers").each(func(name string, header value) {
				fmt.Fprintf(page, "\nHeader `%s`: %s\n", name, cell(header.follow(root).at("description").text()))
			})
			content(page, "Answer", answer.at("content"))
		})
	})
}

// content writes what a body holds.
func content(page *strings.Builder, what string, all value) {
	all.each(func(media string, of value) {
		schema := of.at("schema")
		message := of.at("x-protobuf-message").text()
		if message == "" {
			message = kind(schema)
		}
		fmt.Fprintf(page, "\n%s `%s`: %s\n", what, media, message)
		fields(page, schema)
		if example := of.at("example"); example.there() {
			fmt.Fprintf(page, "\nExample: `%s`\n", inline(example))
		}
	})
}

// inline is a value in one line of JSON.
func inline(v value) string {
	var parts []string
	if all := v.list(); all != nil {
		for _, one := range all {
			parts = append(parts, inline(one))
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	v.each(func(name string, of value) { parts = append(parts, fmt.Sprintf("%q:%s", name, inline(of))) })
	if len(parts) > 0 {
		return "{" + strings.Join(parts, ",") + "}"
	}
	if v.node.Tag == "!!str" {
		return fmt.Sprintf("%q", v.text())
	}
	return v.text()
}
