// Package reference writes docs/reference/metrics.md from the metrics that the program's source declares. It is used by
// "go generate ./cmd/stillhere" and by a test that fails when the page is out of date; the program does not contain it.
package reference

import "strings"

// made is the first line of the page.
const made = "<!-- Made by \"go generate ./cmd/stillhere\". Changes go where the text comes from. -->\n\n"

// cell is text for a cell of a table.
func cell(text string) string {
	text = strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`).Replace(text)
	return strings.Join(strings.Fields(text), " ")
}
