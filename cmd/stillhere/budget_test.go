package main

import (
	"slices"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// What a user of the command line has to read. The numbers only fall: a command or flag that comes needs one
// that goes.
const (
	mostCommands = 48
	mostFlags    = 149
)

// Not parallel, as parse sets the environment.
func TestTheCommandLineIsWithinItsBudget(t *testing.T) {
	parsed := must.Get(parse(t, []string{"config", "init"}, nil))(t)
	commands, flags := surface(parsed.Model)
	t.Logf("%d commands, %d flags: %q", len(commands), len(flags), flags)
	for _, count := range []struct {
		what       string
		have, most int
	}{{"commands", len(commands), mostCommands}, {"flags", len(flags), mostFlags}} {
		switch {
		case count.have > count.most:
			t.Errorf("there are %d %s, the budget is %d: remove one", count.have, count.what, count.most)
		case count.have < count.most:
			t.Logf("there are %d %s, the budget is %d: lower it", count.have, count.what, count.most)
		}
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
