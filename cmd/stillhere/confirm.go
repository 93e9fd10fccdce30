package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// errNotConfirmed ends a command that nobody has confirmed.
var errNotConfirmed = errors.New("not confirmed, so nothing was done; --yes answers the question")

// confirm asks before something is destroyed, if standard input and standard error are terminals and yes is not
// given. Where nobody can be asked, the command goes on: scripts have no terminal.
func confirm(yes bool, question string) error {
	if yes || !asks() {
		return nil
	}
	return ask(os.Stdin, os.Stderr, question)
}

// asks reports whether there is somebody to be asked.
func asks() bool { return isTerminal(os.Stdin) && isTerminal(os.Stderr) }

// ask prints a question and reads the answer, which must be yes.
func ask(in io.Reader, out io.Writer, question string) error {
	if _, err := fmt.Fprintf(out, "%s\nType yes to go on: ", question); err != nil {
		return err
	}
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(answer) != "yes" {
		return errNotConfirmed
	}
	return nil
}
