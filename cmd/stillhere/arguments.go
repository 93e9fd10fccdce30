package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// negative is a value that the parser would take for a short flag.
var negative = regexp.MustCompile(`^-[0-9]`)

// withNegatives writes --from -2h as --from=-2h, and asof -2h as asof --at=-2h.
func withNegatives(app *kong.Application, args []string) []string {
	var all []string
	node, wants := app.Node, false // wants: the argument before is a flag without its value
	for i, arg := range args {
		if arg == "--" {
			return append(all, args[i:]...)
		}
		switch {
		case wants && negative.MatchString(arg):
			all[len(all)-1] += "=" + arg
			wants = false
			continue
		case !wants && negative.MatchString(arg) && flagOf(node, "--at") != nil:
			arg = "--at=" + arg
		case !wants && strings.HasPrefix(arg, "--") && !strings.Contains(arg, "="):
			flag := flagOf(node, arg)
			wants = flag != nil && !flag.IsBool()
			all = append(all, arg)
			continue
		case !wants:
			if child := childOf(node, arg); child != nil {
				node = child
			}
		}
		wants = false
		all = append(all, arg)
	}
	return all
}

// reportMoved prints, for each flag that is given and that is kept for scripts alone, what to type instead. Such a
// flag is hidden; its tag "instead" is the flag that took its place, or else what its values are as arguments.
func reportMoved(errs io.Writer, parsed *kong.Context) {
	var reported []string
	for _, path := range parsed.Path {
		flag := path.Flag
		if flag == nil || path.Resolved || flag.Tag.Get("instead") == "" || slices.Contains(reported, flag.Name) {
			continue
		}
		reported = append(reported, flag.Name)
		instead := flag.Tag.Get("instead")
		if !strings.HasPrefix(instead, "-") {
			instead = fmt.Sprintf("stillhere %s %s", commandName(parsed.Selected()), instead)
		} else if !strings.Contains(instead, " ") {
			instead += " " + strings.Trim(fmt.Sprint(parsed.FlagValue(flag)), "[]")
		}
		fmt.Fprintf(errs, "stillhere: --%s is of an older version; type: %s\n", flag.Name, instead)
	}
}

// commandName is a command without the program and without the alias of its name.
func commandName(node *kong.Node) string {
	var words []string
	for ; node != nil && node.Parent != nil; node = node.Parent {
		words = append(words, node.Name)
	}
	slices.Reverse(words)
	return strings.Join(words, " ")
}

// again is the command line with more flags, for a hint: each argument as a shell reads it, without secrets.
func (a givenArguments) again(parsed *kong.Context, more ...string) string {
	words := []string{"stillhere"}
	secret := false // the argument is one
	for _, arg := range slices.Concat(a, more) {
		name, value, valued := strings.Cut(arg, "=")
		flag := flagOf(parsed.Selected(), name)
		switch {
		case secret:
			arg, secret = hidden, false
		case flag != nil && flag.Tag.Has("secret") && valued && conceal(flag, value) != value:
			arg = name + "=" + conceal(flag, value)
		case flag != nil && flag.Tag.Has("secret") && !valued:
			secret = true
		case slices.Contains(more, arg) && slices.Contains(a, arg) && slices.Contains(words, arg):
			continue // it was given already
		}
		words = append(words, shellWord(arg))
	}
	return strings.Join(words, " ")
}

// plainWord is what every shell reads as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=,@%+…-]+$`)

// shellWord is an argument as a shell reads it.
func shellWord(arg string) string {
	if plainWord.MatchString(arg) {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// helpCommand is --help of another command; run carries it out.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command. Default: all of them."`
}
