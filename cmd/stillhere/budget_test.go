package main

import (
	"slices"
	"testing"

	"github.com/alecthomas/kong"
)

// What a user of the command line has to read. The numbers only fall: a command or flag that comes needs one
// that goes.
const (
	mostCommands = 66
	mostFlags    = 232
)

// Not parallel, as parse sets the environment.
func TestTheCommandLineIsWithinItsBudget(t *testing.T) {
	parsed, err := parse(t, []string{"version"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	commands, flags := surface(parsed.Model)
	t.Logf("%d commands, %d flags: %q", len(commands), len(flags), flags)
	if len(commands) != mostCommands {
		t.Errorf("there are %d commands, the budget is %d: remove one, or lower mostCommands", len(commands), mostCommands)
	}
	if len(flags) != mostFlags {
		t.Errorf("there are %d flags, the budget is %d: remove one, or lower mostFlags", len(flags), mostFlags)
	}
}

// surface returns the commands that a user can run, and the distinct names of their flags.
func surface(program *kong.Application) (commands []*kong.Node, flags []string) {
	commands = program.Leaves(true)
	for _, command := range commands {
		for node := command; node != nil; node = node.Parent {
			for _, flag := range node.Flags {
				if !flag.Hidden && !slices.Contains(flags, flag.Name) {
					flags = append(flags, flag.Name)
				}
			}
		}
	}
	slices.Sort(flags)
	return commands, flags
}
