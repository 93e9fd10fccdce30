// Package reference writes the pages of docs/reference from what the program itself says: the model of
// its command line, and the metrics that its source declares. It is used by "go generate ./cmd/stillhere" and by a test that
// fails when a page is out of date; the program does not contain it.
package reference

import "strings"

// made is the first line of every page.
const made = "<!-- Made by \"go generate ./cmd/stillhere\". Changes go where the text comes from. -->\n\n"

// cell is text for a cell of a table.
func cell(text string) string {
	text = strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`).Replace(text)
	return strings.Join(strings.Fields(text), " ")
}

// anchor is the fragment under which forges show a heading.
func anchor(heading string) string {
	var to strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			to.WriteByte('-')
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			to.WriteRune(r)
		}
	}
	return to.String()
}
