package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/tools/contexts"
)

// withContexts gives the test a file of contexts: prod, which is the current one, and text.
func withContexts(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "contexts.yaml")
	t.Setenv(contexts.PathVariable, path)
	f := &contexts.File{Current: "prod", Contexts: map[string]contexts.Settings{
		"prod": {"url": "https://prod", "token": "prod-token", "kafka-brokers": "k1:9092,k2:9092", "kafka-user": "u", "kafka-password": "secret-p",
			"kafka-tls": "true", "postgres": "postgres://u:secret-q@db/s"},
		"text": {"url": "https://text", "ids": "text", "tenant": "acme", "identity-key-file": "/key"},
	}}
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
}

// settled parses a command line with a configuration file, and returns the values of flags.
func settled(t *testing.T, file, line string) (values map[string]string, parsed *kong.Context, config *configFile) {
	t.Helper()
	args := strings.Fields(line)
	if file != "" {
		path := filepath.Join(t.TempDir(), "stillhere.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	config, resolvers, err := readSettings(args)
	if err != nil {
		t.Fatal(err)
	}
	parser, err := newParser(&commands{}, resolvers)
	if err != nil {
		t.Fatal(err)
	}
	if parsed, err = parser.Parse(args); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	values = map[string]string{}
	for _, path := range parsed.Path {
		for _, flag := range path.Flags {
			value := parsed.FlagValue(flag)
			if p, ok := value.(*string); ok && p == nil {
				continue
			}
			values[flag.Name] = written(value)
		}
	}
	return values, parsed, config
}

func TestTheCommandLineGoesBeforeTheEnvironmentTheFileAndTheContext(t *testing.T) {
	withContexts(t)
	for _, c := range []struct {
		file, env, line string
		want            map[string]string
	}{
		{"", "", "get 1", map[string]string{"url": "https://prod", "token": "prod-token", "ids": "int"}},
		{"", "", "get a --context text", map[string]string{"url": "https://text", "token": "", "ids": "text", "tenant": "acme"}},
		{"", "", "get a --context=text --tenant other", map[string]string{"url": "https://text", "tenant": "other"}},
		{"url: https://file\n", "", "get 1", map[string]string{"url": "https://file", "token": ""}},
		{"url: https://file\n", "https://env", "get 1", map[string]string{"url": "https://env", "token": ""}},
		{"url: https://file\n", "https://env", "get 1 --url https://line", map[string]string{"url": "https://line", "token": ""}},
		// Credentials do not reach another server, and names of another pipeline are not those of this one.
		{"", "", "get 1 --url https://line --context text", map[string]string{"url": "https://line", "token": "", "ids": "int"}},
		{"", "", "replay --kafka-brokers other:9092", map[string]string{"kafka-brokers": "other:9092", "kafka-password": "", "kafka-tls": "false", "postgres": "postgres://u:secret-q@db/s"}},
		{"", "", "replay", map[string]string{"kafka-brokers": "k1:9092,k2:9092", "kafka-password": "secret-p", "kafka-tls": "true"}},
		// Of two that exclude each other, the one that is given counts.
		{"", "", "replay --sqlite a.db", map[string]string{"postgres": ""}},
		{"", "", "get 1 --token-file f", map[string]string{"token": ""}},
		// Changes for all tenants stay such.
		{"", "", "policy set --online-ttl 1m --context text", map[string]string{"ids": "text"}},
	} {
		t.Run(c.line, func(t *testing.T) {
			if c.env != "" {
				t.Setenv("STILLHERE_URL", c.env)
			}
			values, _, _ := settled(t, c.file, c.line)
			for name, want := range c.want {
				if !strings.HasSuffix(values[name], want) || want == "" && values[name] != "" {
					t.Errorf("--%s is %q, want %q", name, values[name], want)
				}
			}
			if strings.HasPrefix(c.line, "policy") && values["tenant"] != "" {
				t.Errorf("the policy is that of tenant %q", values["tenant"])
			}
		})
	}
}

func TestServersDoNotReadContexts(t *testing.T) {
	withContexts(t)
	for _, line := range []string{"all", "detector", "api", "channel log", "dev", "canary", "load", "config check"} {
		values, _, _ := settled(t, "", line)
		for name, value := range values {
			if strings.Contains(value, "prod") || strings.Contains(value, "secret-") || strings.Contains(value, "k1:9092") {
				t.Errorf("%s has --%s %q of a context", line, name, value)
			}
		}
		code, _, errs := stillhere(t, "", append(strings.Fields(line), "--context", "prod")...)
		if code != 2 || !strings.Contains(errs, "--context: stillhere "+line+" takes no context") {
			t.Errorf("%s --context: code %d, %s", line, code, errs)
		}
	}
	if code, _, errs := stillhere(t, "", "get", "1", "--context", "nobody"); code != 2 || !strings.Contains(errs, `there is no context "nobody"`) {
		t.Errorf("a context that does not exist: code %d, %s", code, errs)
	}
}

func TestTheAPIOrKafkaErasesAsTheNearestAddressSays(t *testing.T) {
	for _, c := range []struct {
		file, line string
		contexts   bool
		api        bool
	}{
		{"", "erase 1", false, false},
		{"", "erase 1 --url https://line", false, true},
		{"", "erase 1 --api https://line", false, true},
		{"url: https://file\nkafka-brokers: k:1\n", "erase 1", false, false},
		{"url: https://file\n", "erase 1", false, true},
		{"kafka-brokers: k:1\n", "erase 1 --url https://line", false, true},
		{"", "erase 1", true, true},
		{"", "erase 1 --kafka-brokers k:1", true, false},
	} {
		t.Setenv(contexts.PathVariable, filepath.Join(t.TempDir(), "none.yaml"))
		if c.contexts {
			withContexts(t)
		}
		_, parsed, file := settled(t, c.file, c.line)
		if api, err := throughAPI(parsed, file, "kafka-brokers"); err != nil || api != c.api {
			t.Errorf("%+v: through the API: %v, %v", c, api, err)
		}
	}
	_, parsed, file := settled(t, "", "erase 1 --url https://line --kafka-brokers k:1")
	if _, err := throughAPI(parsed, file, "kafka-brokers"); err == nil {
		t.Error("both on the command line pass")
	}
}

func TestAQuestionIsAnsweredByYesAlone(t *testing.T) {
	for answer, want := range map[string]error{"yes\n": nil, " yes \r\n": nil, "yes": nil, "y\n": errNotConfirmed, "": errNotConfirmed, "no\n": errNotConfirmed} {
		var out strings.Builder
		if err := ask(strings.NewReader(answer), &out, "Erase user 1?"); !errors.Is(err, want) || !strings.HasPrefix(out.String(), "Erase user 1?\nType yes") {
			t.Errorf("%q: %v, want %v; asked %q", answer, err, want, out.String())
		}
	}
}

func TestWithoutAHomeFolderThereAreNoContexts(t *testing.T) {
	for _, variable := range []string{contexts.PathVariable, "HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(variable, "")
	}
	if all, err := readContexts(); err != nil || len(all.Contexts) != 0 {
		t.Errorf("contexts %v, %v", all, err)
	}
	if err := changeContexts(t.Context(), func(*contexts.File) error { return nil }); err == nil || !strings.Contains(err.Error(), contexts.PathVariable) {
		t.Errorf("changing contexts: %v", err)
	}
}

func TestAContextIsNotKeptWithAURLThatIsNone(t *testing.T) {
	withContexts(t)
	for text, ok := range map[string]bool{"not a url": false, "example.com": false, "ftp://a": false, "https://": false, "http://a:1/b": true} {
		code, _, errs := stillhere(t, "", "context", "add", "new", "--url", text)
		if ok && code != 0 || !ok && (code != 2 || !strings.Contains(errs, "--url: must be such as")) {
			t.Errorf("%q: code %d, %s", text, code, errs)
		}
	}
}

func TestFaultsOfContextsNameNoFlagThatNobodyTyped(t *testing.T) {
	withContexts(t)
	for _, line := range []string{"get ann --context nope", "policy list --context nope", "context show nope", "--context nope get 1"} {
		if code, _, errs := stillhere(t, "", strings.Fields(line)...); code == 0 || strings.Contains(errs, "--help: ") {
			t.Errorf("%s: code %d, %s", line, code, errs)
		}
	}
	if err := os.Chmod(os.Getenv(contexts.PathVariable), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := stillhere(t, "", "get", "1"); code != 2 || !strings.HasPrefix(errs, "stillhere: /") {
		t.Errorf("a file that others can read: code %d, %s", code, errs)
	}
}
