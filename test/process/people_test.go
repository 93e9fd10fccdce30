//go:build unix

package process_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/test/testkit"
)

// keyboard is a person with the program and a configuration file.
type keyboard struct {
	*testkit.Dev
	env []string
}

// atKeyboard starts a dev and gives the person a context for it.
func atKeyboard(t *testing.T, flags ...string) *keyboard {
	t.Helper()
	h := testkit.NewDev(t, flags...)
	h.Up()
	return keyboardOf(h, len(flags) > 0)
}

// keyboardOf gives the person a context for a dev, whose users have names or not.
func keyboardOf(h *testkit.Dev, named bool) *keyboard {
	h.Helper()
	file := filepath.Join(h.TempDir(), "stillhere.yaml")
	text := fmt.Sprintf("contexts:\n  dev:\n    url: http://%s\n    kafka-brokers: %s\n", h.Listen, h.Broker)
	if named {
		text += fmt.Sprintf("    ids: text\n    identity-key-file: %s\n", filepath.Join(h.Dir, "identity.key"))
	}
	must.Do(h, os.WriteFile(file, []byte(text), 0o600))
	return &keyboard{Dev: h, env: []string{"STILLHERE_CONFIG=" + file, "STILLHERE_CONTEXT=dev"}}
}

// types runs a command, which must end with the code and say each of want, and returns what it wrote.
func (k *keyboard) types(code int, want []string, arguments ...string) (out string) {
	k.Helper()
	p := testkit.Start(k.T, testkit.Binary(k.T, "stillhere"), func(c *exec.Cmd) { c.Env = append(c.Env, k.env...) }, arguments...)
	got := p.Wait(time.Minute)
	out = p.Out.String()
	for _, text := range want {
		if !strings.Contains(out+p.Err.String(), text) {
			k.Errorf("stillhere %q does not say %q:\n%s%s", arguments, text, out, p.Err.String())
		}
	}
	if got != code {
		k.Errorf("stillhere %q: code %d, want %d:\n%s%s", arguments, got, code, out, p.Err.String())
	}
	return out
}

// sees repeats a command until it prints want.
func (k *keyboard) sees(want string, arguments ...string) {
	k.Helper()
	testkit.Until(k.T, strings.Join(arguments, " ")+" prints "+want, 30*time.Second, func() bool {
		return strings.Contains(k.types(0, nil, arguments...), want)
	})
}

func TestAPersonSeesHidesShowsExportsAndErasesUsersByTheCommandLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags       []string
		user, other string
		more        []string
	}{
		"int":  {nil, "1", "2", nil},
		"text": {[]string{"--ids", "text"}, "ann, née O'Neil", "bob", []string{"--tenant", "acme"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := atKeyboard(t, c.flags...)
			in := func(words ...string) []string { return append(words, c.more...) }
			k.types(0, []string{c.user}, in("beat", c.user, "--kind", "mobile")...)
			k.sees("online", in("get", c.user)...)
			k.types(0, []string{"USER", "STATE", "SINCE (UTC)", c.user, "online", "mobile", "offline"}, in("get", c.user, c.other)...)
			k.types(0, []string{`"user_id": "` + c.user + `"`, `"state": "online"`}, in("get", c.user, "--output", "json")...)
			k.types(0, []string{"user_id,state,since", "online"}, in("get", c.user, "--output", "csv")...)
			k.sees("first_beat", in("history", c.user, "--from", "-10m")...)
			k.types(0, []string{`"cause":"first_beat"`}, in("history", c.user, "--output", "jsonl", "--limit", "1")...)
			k.types(0, []string{"--to is in the future"}, in("history", c.user, "--to", "2100-01-01")...)

			k.types(0, []string{"is shown to nobody"}, in("audience", c.user, "--base", "nobody")...)
			k.types(0, []string{"is shown to everyone, shows last seen: never"}, in("audience", c.user, "--base", "everyone", "--last-seen", "never")...)
			k.sees("never", in("audience", c.user)...)
			k.types(0, []string{"shows last seen: exact"}, in("audience", c.user, "--last-seen", "exact")...) // else it has no history
			k.types(0, []string{"is shown as dnd until"}, in("override", "set", "dnd", c.user, "--until", "8h", "--note", "lunch")...)
			k.sees("does not want to be disturbed", in("get", c.user)...)
			k.types(0, []string{"has no override"}, in("override", "end", c.user)...)
			k.sees("visibility", in("history", c.user)...)
			k.types(0, []string{"there are older changes, which --limit 1 leaves out; --limit 0 prints all"}, in("history", c.user, "--limit", "1", "--output", "csv")...)
			k.types(0, []string{`"type":"change"`}, in("export", c.user)...)
			k.types(0, []string{c.user, "online"}, in("replay", c.user, "--output", "table")...)
			k.types(0, []string{`"state":"online"`}, in("asof", "-0s", c.user, "--output", "jsonl")...)

			k.types(0, []string{`"user_id":"` + c.user + `"`, "last_copy_gone_on"}, in("erase", c.user)...)
			k.sees("offline", in("get", c.user)...)
			k.types(0, []string{"last_copy_gone_on"}, in("erase", c.other, "--kafka-brokers", k.Broker, "--ids", idsOf(c.flags), "--identity-key-file", keyOf(k, c.flags))...)
		})
	}
}

func idsOf(flags []string) string {
	if flags == nil {
		return "int"
	}
	return "text"
}

func keyOf(k *keyboard, flags []string) string {
	if flags == nil {
		return ""
	}
	return filepath.Join(k.Dir, "identity.key")
}

// onTerminal runs a command on a pseudo-terminal. typed is what the person types when prompt, a regular expression, has
// come; empty: nothing.
func (k *keyboard) onTerminal(prompt, typed string, arguments ...string) (out string, code int) {
	k.Helper()
	return k.onTerminalOf(200, prompt, typed, arguments...)
}

// onTerminalOf is onTerminal of so many columns.
func (k *keyboard) onTerminalOf(columns uint16, prompt, typed string, arguments ...string) (out string, code int) {
	k.Helper()
	command := exec.CommandContext(k.Context(), testkit.Binary(k.T, "stillhere"), arguments...)
	command.Env = append(os.Environ(), k.env...)
	terminal := must.Get(pty.StartWithSize(command, &pty.Winsize{Rows: 24, Cols: columns}))(k)
	defer func() { _ = terminal.Close() }()
	var seen bytes.Buffer
	buffer, comes := make([]byte, 4096), regexp.MustCompile(prompt)
	for asked := false; ; {
		n, err := terminal.Read(buffer)
		seen.Write(buffer[:n])
		if !asked && typed != "" && comes.Match(seen.Bytes()) {
			asked = true
			if _, err := io.WriteString(terminal, typed); err != nil {
				k.Errorf("typing: %v", err)
			}
		}
		if err != nil { // the command has closed its side
			break
		}
	}
	_ = command.Wait() // its code is looked at
	return seen.String(), command.ProcessState.ExitCode()
}

func TestAWatchedStatusReplacesTheLastOneOnATerminal(t *testing.T) {
	t.Parallel()
	k := atKeyboard(t)
	const ctrlC = "\x03"
	if out, code := k.onTerminal(`(?s)(\x1b\[H\x1b\[2J.*){2}PARTITION`, ctrlC, "status", "--watch"); code != 0 || strings.Count(out, "\x1b[2J") < 2 {
		t.Errorf("code %d:\n%q", code, testkit.Tail(out, 2000))
	}
}

func TestAnErasureIsConfirmedOnATerminal(t *testing.T) {
	t.Parallel()
	k := atKeyboard(t)
	k.types(0, nil, "beat", "1")
	k.sees("online", "get", "1")
	out, code := k.onTerminal("Type yes to go on", "no\n", "erase", "1")
	if code == 0 || !strings.Contains(out, "Erase user 1 at http://") || !strings.Contains(out, "dropped for good") || !strings.Contains(out, "nothing was done") {
		t.Errorf("not confirmed: code %d\n%s", code, out)
	}
	k.types(0, []string{"online"}, "get", "1")
	for typed, arguments := range map[string][]string{"yes\n": {"erase", "1"}, "": {"erase", "1", "--yes"}} {
		if out, code := k.onTerminal("Type yes to go on", typed, arguments...); code != 0 || !strings.Contains(out, "last_copy_gone_on") {
			t.Errorf("%q: code %d\n%s", arguments, code, out)
		}
	}
	if out, _ := k.onTerminal("", "", "asof", "now"); !strings.Contains(out, "STATE") || strings.Contains(out, `{"`) {
		t.Errorf("asof prints no table on a terminal:\n%s", out)
	}
}
