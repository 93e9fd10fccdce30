package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/lastseen/replay"
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

// commandName is a command without the program.
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

// checkInstants refuses a command line with more than one instant for --at: one as the first argument, or twice --at.
// The first argument is one if it can be read so, unless it is a number or "--" goes before the users.
func (a givenArguments) checkInstants(first string) error {
	var given []string
	closed := false // by "--"
	for i, arg := range a {
		if closed = arg == "--"; closed {
			break
		}
		if value, ok := strings.CutPrefix(arg, "--at="); ok {
			given = append(given, value)
		} else if arg == "--at" && i+1 < len(a) {
			given = append(given, a[i+1])
		}
	}
	if len(given) > 1 {
		return misused(fmt.Errorf("--at: one instant can be given, and not both %s and %s", given[0], given[1]))
	}
	if len(given) == 0 || first == "" || closed || strings.Trim(first, "0123456789") == "" {
		return nil
	}
	if _, err := replay.ParseInstant("--at", first, time.Now()); err != nil {
		return nil // a user
	}
	return misused(fmt.Errorf("<time>, --at: one instant can be given, and not both %s and %s; \"--\" goes before a user of that name",
		first, given[0]))
}
