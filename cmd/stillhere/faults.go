package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/internal/watch"
)

// report prints one line per fault, for logs that are split at lines. It leaves out a fault
// that ends a line printed before.
func report(errs io.Writer, err error) {
	var printed []string
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSpace(line)
		if slices.ContainsFunc(printed, func(before string) bool { return strings.HasSuffix(before, line) }) {
			continue
		}
		printed = append(printed, line)
		fmt.Fprintf(errs, "stillhere: %s\n", line)
	}
}

// commandOf is the command that a command line that cannot be understood names; nil for none.
func commandOf(err error) *kong.Node {
	var bad *kong.ParseError
	if !errors.As(err, &bad) || bad.Context == nil {
		return nil
	}
	var node *kong.Node
	for _, path := range bad.Context.Path {
		if path.Command != nil {
			node = path.Command
		}
	}
	return node
}

// asParsed is the error of a command line that cannot be understood, without what the parser puts before it: the name
// of the command, which hintHelp prints, and the flag for which a context was read first.
func asParsed(err error) error {
	text := strings.TrimPrefix(err.Error(), "--help: ")
	if name := commandName(commandOf(err)); name != "" {
		text = strings.TrimPrefix(text, name+": ")
	}
	return errors.New(text)
}

// hintAddresses prints which flags of the command name servers.
func hintAddresses(errs io.Writer, node *kong.Node) {
	var flags []string
	for _, name := range []string{"--url", "--kafka-brokers", "--redis", "--postgres", "--admin"} {
		if flag := flagOf(node, name); flag != nil && !flag.Hidden {
			flags = append(flags, name)
		}
	}
	if len(flags) == 0 {
		return
	}
	set := "sets the address"
	if n := len(flags); n > 1 {
		set = "set the addresses"
		flags = []string{strings.Join(flags[:n-1], ", ") + " and " + flags[n-1]}
	}
	fmt.Fprintf(errs, "stillhere: no server listens at this address; %s %s, and \"stillhere dev\" prints its own\n", strings.Join(flags, ""), set)
}

// hintToken prints how a command gets the token that the server misses, if that is the fault.
func hintToken(errs io.Writer, node *kong.Node, err error) {
	var problem *client.ProblemError
	var refused *watch.Refused
	status, code := 0, ""
	switch {
	case flagOf(node, "--token-file") == nil:
	case errors.As(err, &problem):
		status, code = problem.Status, problem.Code
	case errors.As(err, &refused):
		status = refused.Status
	}
	switch {
	case status == http.StatusUnauthorized:
		fmt.Fprintln(errs, `stillhere: --token-file FILE or STILLHERE_TOKEN gives the server a token; for servers that verify tokens with a secret, "stillhere token" makes one`)
	case code == "insufficient_scope":
		fmt.Fprintln(errs, `stillhere: "stillhere token --scope SCOPE" makes a token with a scope, for servers that verify tokens with a secret`)
	}
}

// hintHelp prints where the command is explained.
func hintHelp(errs io.Writer, node *kong.Node) {
	if name := commandName(node); name != "" {
		fmt.Fprintf(errs, "See \"stillhere %s --help\".\n", name)
		return
	}
	fmt.Fprintln(errs, `See "stillhere --help".`)
}

// settingName begins a fault of settings, by their names in the configuration of the program.
var settingName = regexp.MustCompile(`(?m)^([a-z]+(?:_[a-z]+)*)(?:, [a-z]+(?:_[a-z]+)*)*: `)

// asTyped is err with the names of settings as flags, where the command has such a flag.
func asTyped(node *kong.Node, err error) error {
	text := settingName.ReplaceAllStringFunc(err.Error(), func(found string) string {
		names := strings.Split(strings.TrimSuffix(found, ": "), ", ")
		for i, name := range names {
			names[i] = flagNamed(node, strings.ReplaceAll(name, "_", "-"))
			if names[i] == "" {
				return found
			}
		}
		return strings.Join(names, ", ") + ": "
	})
	if node != nil && slices.ContainsFunc(node.Positional, func(p *kong.Positional) bool { return p.Name == "user" || p.Name == "users" }) {
		text = strings.Replace(text, ": user_id: ", ": <user>: ", 1) // of the API
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

// flagNamed is the flag of a setting, as it is typed; empty if the command has none.
func flagNamed(node *kong.Node, name string) string {
	for _, flag := range []string{"--" + name, "--kafka-" + name, "--" + name + "-file"} {
		if f := flagOf(node, flag); f != nil && !f.Hidden {
			return flag
		}
	}
	return ""
}
