package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
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

// hintHelp prints where the command is explained.
func hintHelp(errs io.Writer, node *kong.Node) {
	if name := commandName(node); name != "" {
		fmt.Fprintf(errs, "See \"stillhere %s --help\".\n", name)
		return
	}
	fmt.Fprintln(errs, `See "stillhere --help".`)
}

// settingName begins a fault of a setting, by its name in the configuration of the program.
var settingName = regexp.MustCompile(`(?m)^([a-z]+(?:_[a-z]+)*): `)

// asTyped is err with the names of settings as flags, where the command has such a flag.
func asTyped(node *kong.Node, err error) error {
	text := settingName.ReplaceAllStringFunc(err.Error(), func(found string) string {
		name := strings.ReplaceAll(strings.TrimSuffix(found, ": "), "_", "-")
		for _, flag := range []string{"--" + name, "--kafka-" + name} {
			if f := flagOf(node, flag); f != nil && !f.Hidden {
				return flag + ": "
			}
		}
		return found
	})
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}
