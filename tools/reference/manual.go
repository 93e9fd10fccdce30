package reference

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Manual is the manual page stillhere(1), in the language of man(7).
func Manual(program *kong.Node) string {
	var page strings.Builder
	page.WriteString(".TH STILLHERE 1 \"\" \"Stillhere\" \"Commands\"\n.SH NAME\n" +
		"stillhere \\- who is online, away or offline\n" +
		".SH SYNOPSIS\n.B stillhere\n\\fIcommand\\fR [\\fIflags\\fR]\n.SH DESCRIPTION\n")
	paragraphs(&page, program.Help)
	page.WriteString(".SH OPTIONS\n")
	manualFlags(&page, program.Flags, nil)
	page.WriteString(".SH COMMANDS\n")
	commands := program.Leaves(true)
	groups := sharedBy(commands)
	for _, command := range commands {
		fmt.Fprintf(&page, ".SS \"%s\"\n%s\n", roff(command.Summary()), roff(command.Help))
		paragraphs(&page, command.Detail)
		for _, argument := range command.Positional {
			fmt.Fprintf(&page, ".TP\n\\fI%s\\fR\n%s\n", roff(argument.Summary()), roff(argument.Help))
		}
		own, others := split(command, groups)
		manualFlags(&page, own, nil)
		var titles []string
		for _, group := range others {
			titles = append(titles, group.title)
		}
		if len(titles) > 0 {
			fmt.Fprintf(&page, ".PP\nFlags below: %s.\n", roff(strings.Join(titles, ", ")))
		}
	}
	page.WriteString(".SH FLAGS OF SEVERAL COMMANDS\n")
	for _, group := range groups {
		fmt.Fprintf(&page, ".SS \"%s\"\n", roff(group.title))
		manualFlags(&page, group.flags, group)
	}
	return page.String()
}

// paragraphs writes text; a paragraph that is indented is an example.
func paragraphs(page *strings.Builder, text string) {
	for paragraph := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		switch {
		case strings.TrimSpace(paragraph) == "":
		case strings.HasPrefix(paragraph, "    "):
			page.WriteString(".PP\n.nf\n")
			for line := range strings.SplitSeq(paragraph, "\n") {
				page.WriteString(roff(line) + "\n")
			}
			page.WriteString(".fi\n")
		default:
			page.WriteString(".PP\n" + roff(paragraph) + "\n")
		}
	}
}

func manualFlags(page *strings.Builder, all []*kong.Flag, group *shared) {
	for _, flag := range all {
		if flag.Hidden {
			continue
		}
		help := flag.Help
		if len(flag.Envs) > 0 {
			help += " ($" + strings.Join(flag.Envs, ", $") + ")"
		}
		if group != nil {
			help += " " + group.only(flag)
		}
		fmt.Fprintf(page, ".TP\n\\fB%s\\fR\n%s\n", roff(flag.String()), roff(help))
	}
}

// roff is text in which nothing is a command of the formatter.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`, "\n", " ").Replace(strings.TrimRight(text, " "))
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}
