//go:build unix

package process_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/test/testkit"
)

// printed are the commands that dev says to try, by what they are for.
var printed = regexp.MustCompile(`(?m)^  (\w[\w ]*\w) {2,}((?:export|curl|/).*?)(?:  +\(.*\))?$`)

func TestWhatDevPrintsWorksWithTokensAndItsKafkaTakesNobodyElse(t *testing.T) {
	testkit.InBothModes(t, func(t *testing.T, m testkit.Mode) {
		dir := t.TempDir()
		secret := filepath.Join(dir, "secret")
		must.Do(t, os.WriteFile(secret, []byte("0123456789abcdef0123456789abcdef"), 0o600))
		arguments := append([]string{"dev", "--data-dir", filepath.Join(dir, "data"), "--listen", testkit.FreePort(t), "--admin", testkit.FreePort(t),
			"--auth-secret-file", secret}, m.Flags(t)...)
		dev := testkit.Start(t, testkit.Binary(t, "stillhere"), nil, arguments...)
		testkit.Until(t, "dev has said what to try", 60*time.Second, func() bool { return strings.Contains(dev.Out.String(), "Ctrl-C") || !dev.Running() })
		commands := map[string]string{}
		for _, found := range printed.FindAllStringSubmatch(dev.Out.String(), -1) {
			commands[found[1]] = found[2]
		}
		run := func(command string) string {
			out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v: %s", command, err, out)
			}
			return string(out)
		}
		first := commands["have a token for an hour"] + "\n"
		beat := commands["send a beat of user 1"]
		if m.Text() {
			beat = commands["send a beat of ann"]
		}
		for _, c := range []struct{ command, says string }{
			{beat, `"accepted":1`},
			{commands["read the presence"], `:"o`},
			{strings.Replace(commands["notify followers"], "curl ", "curl -f ", 1), ""},
		} {
			if out := run(first + c.command); c.command == "" || !strings.Contains(out, c.says) {
				t.Errorf("%q: %s, want %s", c.command, out, c.says)
			}
		}
		testkit.Until(t, "the change is in the log", 20*time.Second, func() bool {
			return strings.Contains(run(commands["read every change"]), "first_beat")
		})
		if out := run(commands["change a setting"]); !strings.Contains(out, "away_ttl") {
			t.Errorf("%q says %s", commands["change a setting"], out)
		}
		unsigned := strings.Split(commands["change a setting"], " --frame-keys ")[0]
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", unsigned).CombinedOutput(); err == nil || !strings.Contains(string(out), "--frame-keys: is needed") {
			t.Errorf("%q: %v: %s", unsigned, err, out)
		}
		// Another account of the machine has the address, and nothing else.
		address := regexp.MustCompile(`Kafka listens at (\S+);`).FindStringSubmatch(dev.Out.String())[1]
		if _, err := exec.LookPath("kcat"); err != nil {
			t.Skip("kcat is not installed")
		}
		if out, err := exec.CommandContext(t.Context(), "kcat", "-b", address, "-L", "-m", "5").CombinedOutput(); err == nil {
			t.Errorf("Kafka takes somebody without the password:\n%s", out)
		}
	})
}
