//go:build unix

package process_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/stillhere/stillhere/test/testkit"
)

// keyboard is a person with the program and a file of contexts.
type keyboard struct {
	*testkit.Dev
	env []string
}

// atKeyboard starts a dev and gives the person a context for it, which is the current one.
func atKeyboard(t *testing.T, flags ...string) *keyboard {
	t.Helper()
	h := testkit.NewDev(t, flags...)
	h.Up()
	k := &keyboard{Dev: h, env: []string{"STILLHERE_CONTEXTS=" + filepath.Join(t.TempDir(), "contexts.yaml")}}
	add := []string{"context", "add", "dev", "--use", "--url", "http://" + h.Listen, "--kafka-brokers", h.Broker}
	if len(flags) > 0 {
		add = append(add, "--ids", "text", "--identity-key-file", filepath.Join(h.Dir, "identity.key"))
	}
	k.types(0, []string{"context dev has"}, add...)
	return k
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

			k.types(0, []string{"is hidden from all others"}, in("hide", c.user)...)
			k.types(0, []string{"is shown to others"}, in("show", c.user)...)
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

func TestContextsHoldSecretsThatNobodyPrints(t *testing.T) {
	t.Parallel()
	k := &keyboard{Dev: testkit.NewDev(t), env: []string{"STILLHERE_CONTEXTS=" + filepath.Join(t.TempDir(), "c", "contexts.yaml"), "STILLHERE_TOKEN=from-env"}}
	k.types(0, nil, "context", "add", "a", "--url", "https://u:pw-1@a.example.com", "--kafka-password", "pw-2", "--redis", "redis://u:pw-3@r:1", "--from-env", "--use")
	k.types(0, nil, "context", "add", "b", "--kafka-brokers", "k:1,l:2", "--ids", "text")
	var all string
	all += k.types(0, []string{"*", "a.example.com", "k:1, l:2", "text"}, "context", "list")
	all += k.types(0, []string{`"current": true`}, "context", "list", "--output", "json")
	all += k.types(0, []string{"token", "(hidden)", "kafka-password"}, "context", "show")
	all += k.types(0, nil, "context", "show", "a", "--output", "json")
	for _, secret := range []string{"pw-1", "pw-2", "pw-3", "from-env"} {
		if strings.Contains(all, secret) {
			t.Errorf("%s is printed:\n%s", secret, all)
		}
	}
	k.types(2, []string{"--token, --token-file"}, "context", "add", "a", "--token-file", "f")
	k.types(0, nil, "context", "add", "a", "--token-file", "f", "--unset", "token")
	k.types(1, []string{`no context "c"`}, "context", "use", "c")
	k.types(0, nil, "context", "use", "b")
	k.types(0, []string{"k:1,l:2"}, "context", "show")
	k.types(0, nil, "context", "remove", "b")
	k.types(2, []string{"no current context"}, "context", "show")
	file := strings.TrimPrefix(k.env[0], "STILLHERE_CONTEXTS=")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: want mode 0600", info, err)
	}
}

// onTerminal runs a command on a pseudo-terminal. typed is what the person types when prompt has come; empty: nothing.
func (k *keyboard) onTerminal(prompt, typed string, arguments ...string) (out string, code int) {
	k.Helper()
	return k.onTerminalOf(200, prompt, typed, arguments...)
}

// onTerminalOf is onTerminal of so many columns.
func (k *keyboard) onTerminalOf(columns uint16, prompt, typed string, arguments ...string) (out string, code int) {
	k.Helper()
	command := exec.CommandContext(k.Context(), testkit.Binary(k.T, "stillhere"), arguments...)
	command.Env = append(os.Environ(), k.env...)
	terminal, err := pty.StartWithSize(command, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		k.Fatalf("%v", err)
	}
	defer func() { _ = terminal.Close() }()
	var seen bytes.Buffer
	buffer := make([]byte, 4096)
	for asked := false; ; {
		n, err := terminal.Read(buffer)
		seen.Write(buffer[:n])
		if !asked && typed != "" && strings.Contains(seen.String(), prompt) {
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
