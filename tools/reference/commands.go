package reference

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// shared is a group of flags that several commands have, such as those of Kafka.
type shared struct {
	title    string
	flags    []*kong.Flag
	commands []string            // that have a flag of the group
	of       map[string][]string // the commands of each flag, by identity
}

// identity is what two flags must have in common to be one.
func identity(f *kong.Flag) string { return f.String() + "\x00" + f.Help }

// sharedBy returns the groups in which a flag is that of several commands, in the order in which
// the commands name them.
func sharedBy(commands []*kong.Node) []*shared {
	var all []*shared
	for _, command := range commands {
		for _, flag := range flagsOf(command) {
			if flag.Group == nil {
				continue
			}
			i := slices.IndexFunc(all, func(s *shared) bool { return s.title == title(flag) })
			if i < 0 {
				i, all = len(all), append(all, &shared{title: title(flag), of: map[string][]string{}})
			}
			group, id, name := all[i], identity(flag), path(command)
			if group.of[id] == nil {
				group.flags = append(group.flags, flag)
			}
			group.of[id] = append(group.of[id], name)
			if !slices.Contains(group.commands, name) {
				group.commands = append(group.commands, name)
			}
		}
	}
	for _, group := range all {
		group.flags = slices.DeleteFunc(group.flags, func(f *kong.Flag) bool { return len(group.of[identity(f)]) < 2 })
	}
	return slices.DeleteFunc(all, func(s *shared) bool { return len(s.flags) == 0 })
}

// has reports whether the group holds the flag.
func (s *shared) has(flag *kong.Flag) bool {
	return flag.Group != nil && title(flag) == s.title && len(s.of[identity(flag)]) > 1
}

// only names the commands of a flag, or the others, if they are not those of the whole group.
func (s *shared) only(flag *kong.Flag) string {
	of := s.of[identity(flag)]
	others := slices.DeleteFunc(slices.Clone(s.commands), func(c string) bool { return slices.Contains(of, c) })
	switch {
	case len(others) == 0:
		return ""
	case len(others) < len(of):
		return "Not of " + strings.Join(others, ", ") + "."
	}
	return "Of " + strings.Join(of, ", ") + "."
}

// split returns the flags that only this command has, and the groups of the others.
func split(command *kong.Node, groups []*shared) (own []*kong.Flag, others []*shared) {
	for _, flag := range flagsOf(command) {
		i := slices.IndexFunc(groups, func(s *shared) bool { return s.has(flag) })
		switch {
		case i < 0:
			own = append(own, flag)
		case !slices.Contains(others, groups[i]):
			others = append(others, groups[i])
		}
	}
	return own, others
}

// flagsOf are the flags of a command and of those above it, but for the program's.
func flagsOf(command *kong.Node) []*kong.Flag {
	var all []*kong.Flag
	for node := command; node.Parent != nil; node = node.Parent {
		all = append(all, node.Flags...)
	}
	return slices.DeleteFunc(all, func(f *kong.Flag) bool { return f.Hidden })
}

func title(flag *kong.Flag) string { return strings.TrimSuffix(flag.Group.Title, ":") }

// path is a command without the program.
func path(command *kong.Node) string {
	alias := func(word string) bool { return strings.HasPrefix(word, "(") }
	return strings.Join(slices.DeleteFunc(strings.Fields(command.Path()), alias), " ")
}

// Commands is the page of the command line.
func Commands(program *kong.Node) string {
	var page strings.Builder
	page.WriteString(made + "# Commands\n\n" + program.Help + "\n\n")
	commands := program.Leaves(true)
	groups := sharedBy(commands)
	page.WriteString("| command | what it does |\n|---|---|\n")
	for _, command := range commands {
		fmt.Fprintf(&page, "| [%s](#stillhere-%s) | %s |\n", path(command), anchor(path(command)), cell(command.Help))
	}
	page.WriteString("\nEvery command has:\n\n")
	flags(&page, program.Flags, nil)
	for _, command := range commands {
		fmt.Fprintf(&page, "\n## stillhere %s\n\n`stillhere %s`\n\n%s\n", path(command), command.Summary(), command.Help)
		if command.Detail != "" {
			page.WriteString("\n" + strings.TrimSpace(command.Detail) + "\n")
		}
		for i, argument := range command.Positional {
			if i == 0 {
				page.WriteString("\n")
			}
			fmt.Fprintf(&page, "- `%s`: %s\n", argument.Summary(), argument.Help)
		}
		own, others := split(command, groups)
		if len(own) > 0 {
			page.WriteString("\n")
			flags(&page, own, nil)
		}
		var links []string
		for _, group := range others {
			links = append(links, fmt.Sprintf("[%s](#%s)", group.title, anchor("flags: "+group.title)))
		}
		if len(links) > 0 {
			fmt.Fprintf(&page, "\nFlags that other commands have, too: %s.\n", strings.Join(links, ", "))
		}
	}
	for _, group := range groups {
		fmt.Fprintf(&page, "\n## Flags: %s\n\nOf %s.\n\n", group.title, strings.Join(group.commands, ", "))
		flags(&page, group.flags, group)
	}
	return page.String()
}

// flags writes a table; group may be nil.
func flags(page *strings.Builder, all []*kong.Flag, group *shared) {
	page.WriteString("| flag, with its default | environment | meaning |\n|---|---|---|\n")
	for _, flag := range all {
		if flag.Hidden {
			continue
		}
		environment, help := "", flag.Help
		if len(flag.Envs) > 0 {
			environment = "`" + strings.Join(flag.Envs, "`, `") + "`"
		}
		if group != nil {
			help += " " + group.only(flag)
		}
		fmt.Fprintf(page, "| `%s` | %s | %s |\n", strings.ReplaceAll(flag.String(), "|", `\|`), environment, cell(help))
	}
}
