package main

import (
	"embed"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// completions are what shells load: each asks this program for words ("complete").
//
//go:embed completion
var completions embed.FS

// completionCommand prints what a shell needs to complete command lines.
type completionCommand struct {
	Shell string `arg:"" help:"Which shell: ${enum}." enum:"bash,zsh,fish"`
}

// Help is shown above the flags.
func (*completionCommand) Help() string {
	return `Load it for this session, or from the file with which your shell starts:

    source <(stillhere completion bash)
    source <(stillhere completion zsh)
    stillhere completion fish | source`
}

// Run prints.
func (c *completionCommand) Run(parsed *kong.Context) error {
	script, err := completions.ReadFile("completion/stillhere." + c.Shell)
	if err != nil {
		return err
	}
	_, err = parsed.Stdout.Write(script)
	return err
}

// completeCommand is what the scripts call.
type completeCommand struct {
	Words []string `arg:"" optional:"" help:"The words after the program's name, up to the one to be completed."`
}

// Run prints a candidate a line, a tab and what it is; ":files" stands for all files.
func (c *completeCommand) Run(parsed *kong.Context) error {
	for _, found := range complete(parsed.Model, c.Words) {
		if _, err := fmt.Fprintf(parsed.Stdout, "%s\t%s\n", found.word, strings.ReplaceAll(found.about, "\n", " ")); err != nil {
			return err
		}
	}
	return nil
}

// candidate is a word that may stand where the cursor is.
type candidate struct{ word, about string }

// files stands for the names of files, which shells complete better.
const files = ":files"

// complete returns the candidates for the last of the words.
func complete(app *kong.Application, words []string) []candidate {
	words = joined(words)
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	node, arguments, wants := app.Node, 0, (*kong.Flag)(nil)
	for _, word := range words[:len(words)-1] {
		switch name, _, valued := strings.Cut(word, "="); {
		case wants != nil:
			wants = nil
		case strings.HasPrefix(word, "-"):
			if flag := flagOf(node, name); flag != nil && !valued && !flag.IsBool() {
				wants = flag
			}
		default:
			if child := childOf(node, word); child != nil {
				node = child
			} else {
				arguments++
			}
		}
	}
	if wants != nil {
		return valuesOf(wants.Value, "", last)
	}
	if name, value, valued := strings.Cut(last, "="); valued && strings.HasPrefix(name, "--") {
		if flag := flagOf(node, name); flag != nil {
			return valuesOf(flag.Value, name+"=", value)
		}
		return nil
	}
	if strings.HasPrefix(last, "-") {
		return flagsOf(node, last)
	}
	var found []candidate
	for _, child := range node.Children {
		if !child.Hidden && strings.HasPrefix(child.Name, last) {
			found = append(found, candidate{child.Name, child.Help})
		}
	}
	if n := len(node.Positional); n > 0 {
		found = append(found, valuesOf(node.Positional[min(arguments, n-1)], "", last)...)
	}
	return found
}

// joined puts "--flag", "=", "value" together, into which bash cuts --flag=value; it
// completes the value alone then.
func joined(words []string) []string {
	var whole []string
	for i := 0; i < len(words); i++ {
		if words[i] != "=" || len(whole) == 0 || !strings.HasPrefix(whole[len(whole)-1], "--") {
			whole = append(whole, words[i])
			continue
		}
		if i+1 == len(words) {
			return append(whole, "")
		}
	}
	return whole
}

func childOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

func flagOf(node *kong.Node, name string) *kong.Flag {
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			if "--"+flag.Name == name || flag.Short != 0 && "-"+string(flag.Short) == name {
				return flag
			}
		}
	}
	return nil
}

func flagsOf(node *kong.Node, beginning string) []candidate {
	var found []candidate
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			names := []string{"--" + flag.Name}
			if flag.Hidden {
				continue
			}
			if flag.Tag.Negatable != "" {
				names = append(names, "--no-"+flag.Name)
			}
			for _, name := range names {
				if strings.HasPrefix(name, beginning) {
					found = append(found, candidate{name, flag.Help})
				}
			}
		}
	}
	return found
}

func valuesOf(value *kong.Value, before, beginning string) []candidate {
	if value.Tag.Type == "path" || value.Tag.Type == "existingfile" {
		return []candidate{{files, ""}}
	}
	var found []candidate
	words := value.EnumSlice()
	if takes := value.Tag.Get("takes"); takes != "" {
		words = strings.Split(takes, ",")
	}
	for _, word := range words {
		if word != "" && strings.HasPrefix(word, beginning) {
			found = append(found, candidate{before + word, ""})
		}
	}
	return found
}
