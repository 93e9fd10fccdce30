package reference

import (
	"fmt"
	"strings"
)

// Topics is the page of topics and socket messages, from the AsyncAPI document.
func Topics(asyncapi []byte) (string, error) {
	root, err := document(asyncapi)
	if err != nil {
		return "", err
	}
	uses := map[string][]string{} // by channel
	root.at("operations").each(func(_ string, of value) {
		channel := of.at("channel").name()
		if about := of.at("summary").text(); about != "" {
			uses[channel] = append(uses[channel], about)
		}
	})
	var page strings.Builder
	page.WriteString(made + "# Topics and sockets\n\n" + strings.TrimSpace(root.at("info", "description").text()) + "\n\n" +
		"From [asyncapi.yaml](../../schemas/asyncapi.yaml), served at `/asyncapi.yaml`. [Messages](../../schemas/README.md)\n" +
		"has the guarantees of each topic, and how to read and write them.\n")
	root.at("channels").each(func(name string, of value) {
		fmt.Fprintf(&page, "\n## %s\n\n%s\n", of.at("address").text(), strings.TrimSpace(of.at("description").text()))
		for _, about := range uses[name] {
			fmt.Fprintf(&page, "%s\n", about)
		}
		of.at("messages").each(func(_ string, m value) {
			fmt.Fprintf(&page, "\nMessage: [%s](#%s).\n", m.name(), anchor(m.name()))
		})
		var rows strings.Builder
		rowsOf(&rows, "", of.at("bindings", "ws", "query"))
		if rows.Len() > 0 {
			page.WriteString("\n| parameter | value | meaning |\n|---|---|---|\n" + rows.String())
		}
	})
	page.WriteString("\n## Messages\n")
	root.at("components", "messages").each(func(name string, of value) {
		fmt.Fprintf(&page, "\n### %s\n", name)
		if about := of.at("description").text(); about != "" {
			page.WriteString("\n" + strings.TrimSpace(about) + "\n")
		}
		if message := of.at("x-protobuf-message").text(); message != "" {
			fmt.Fprintf(&page, "\nProtobuf `%s`, in [schemas/proto](../../schemas/proto/stillhere/v1).\n", message)
		}
		fields(&page, of.at("headers"))
		fields(&page, of.at("payload"))
	})
	page.WriteString("\n## Schemas\n")
	schemas(&page, root.at("components", "schemas"))
	return page.String(), nil
}
