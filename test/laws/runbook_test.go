package laws

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// The runbook quotes a log message as Log: `message`, or several with ", " or " or "
// between them.
var (
	logLines  = regexp.MustCompile("[Ll]og(?:, [a-z ]+)?: ((?:`[^`]+`(?:,? then |,? or |, )?)+)")
	alertName = regexp.MustCompile(`(?m)^ *- alert: (\w+)$`)
)

func runbook(t *testing.T) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(root, "deploy", "RUNBOOK.md")))(t)
	return strings.Join(strings.Fields(string(text)), " ")
}

func TestLogMessagesInTheRunbookAreInTheCode(t *testing.T) {
	var code strings.Builder
	for _, path := range filesOf(t, ".") {
		if filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go") {
			text := must.Get(os.ReadFile(path))(t)
			code.Write(text)
		}
	}
	found := 0
	for _, line := range logLines.FindAllStringSubmatch(runbook(t), -1) {
		for _, message := range quoted.FindAllStringSubmatch(line[1], -1) {
			found++
			if !strings.Contains(code.String(), message[1]) {
				t.Errorf("deploy/RUNBOOK.md quotes the log message %q, which no code writes: write the new message there", message[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("%d log messages are found in the runbook: its form has changed", found)
	}
}

func TestEveryAlertIsInTheRunbook(t *testing.T) {
	rules := must.Get(os.ReadFile(filepath.Join(root, "deploy", "prometheus", "rules", "stillhere.yml")))(t)
	text := runbook(t)
	for _, name := range alertName.FindAllStringSubmatch(string(rules), -1) {
		if !strings.Contains(text, name[1]) {
			t.Errorf("deploy/RUNBOOK.md says nothing about the alert %s", name[1])
		}
	}
}
