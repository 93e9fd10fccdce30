package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// twoPipelines is a configuration file with contexts.
const twoPipelines = `policy: online_ttl=40s
token-file: /top.token
contexts:
  prod: {url: https://prod, token-file: /prod.token, kafka: {brokers: [k1:9092, k2:9092]}, postgres: postgres://u@db/s}
  text: {url: https://text, ids: text, tenant: acme, identity_key_file: /key}
`

// A context with an address is another pipeline than the one that the rest of the file is for.
func TestACommandForAContextDoesNotGoToTheRestOfTheFile(t *testing.T) {
	const file = `url: https://staging
token-file: /staging.token
contexts:
  prod: {kafka-brokers: "prod:9092"}
`
	_, parsed, config := settled(t, file, "erase 7 --context prod")
	if through, err := throughAPI(parsed, config, "kafka-brokers"); through || err != nil {
		t.Errorf("the user is erased through the API of another pipeline: %v (%v)", through, err)
	}
}

// settled parses a command line with a configuration file, and returns the values of flags.
func settled(t *testing.T, file, line string) (values map[string]string, parsed *kong.Context, config *configFile) {
	t.Helper()
	args := strings.Fields(line)
	if file != "" {
		path := filepath.Join(t.TempDir(), "stillhere.yaml")
		must.Do(t, os.WriteFile(path, []byte(file), 0o600))
		args = append(args, "--config", path)
	}
	config, resolvers, err := readSettings(args)
	must.Do(t, err)
	parser, err := newParser(&commands{}, resolvers)
	must.Do(t, err)
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
			if list, ok := value.([]string); ok {
				value = strings.Join(list, ",")
			}
			if p, ok := value.(*string); ok {
				value = *p
			}
			values[flag.Name] = fmt.Sprint(value)
		}
	}
	return values, parsed, config
}

func TestTheCommandLineOverridesTheEnvironmentAndItTheContextAndItTheRestOfTheFile(t *testing.T) {
	for _, c := range []struct {
		env, line string
		want      map[string]string
	}{
		{"", "get 1", map[string]string{"url": "http://127.0.0.1:8080", "token-file": "/top.token", "ids": "int"}},
		{"", "get 1 --context prod", map[string]string{"url": "https://prod", "token-file": "/prod.token", "ids": "int"}},
		{"", "get a --context=text", map[string]string{"url": "https://text", "token-file": "", "ids": "text", "tenant": "acme"}},
		{"", "get a --context text --tenant other", map[string]string{"url": "https://text", "tenant": "other"}},
		{"https://env", "get 1 --context prod", map[string]string{"url": "https://env"}},
		{"https://env", "get 1 --context prod --url https://line", map[string]string{"url": "https://line"}},
		{"", "replay --context prod", map[string]string{"kafka-brokers": "k1:9092,k2:9092", "postgres": "postgres://u@db/s"}},
		{"", "detector --context prod", map[string]string{"kafka-brokers": "k1:9092,k2:9092", "policy": "online_ttl=40s"}},
	} {
		t.Run(c.line, func(t *testing.T) {
			if c.env != "" {
				t.Setenv("STILLHERE_URL", c.env)
			}
			values, _, _ := settled(t, twoPipelines, c.line)
			for name, want := range c.want {
				if !strings.HasSuffix(values[name], want) || want == "" && values[name] != "" {
					t.Errorf("--%s is %q, want %q", name, values[name], want)
				}
			}
		})
	}
	t.Setenv("STILLHERE_CONTEXT", "text")
	if values, _, _ := settled(t, twoPipelines, "get a"); values["url"] != "https://text" {
		t.Errorf("the context of the environment is not taken: %v", values)
	}
}

func TestFaultsOfContextsSayWhatThereIs(t *testing.T) {
	for _, c := range []struct{ file, line, want string }{
		{twoPipelines, "get 1 --context nope", `--context: there is no context "nope"; `},
		{twoPipelines, "get 1 --context nope", ` has ["prod" "text"]`},
		{"", "get 1 --context nope", `there is no context "nope"; --config names the file that has contexts`},
		{twoPipelines + "  more: {token-fil: x}\n", "config check", `line 6: there is no setting "token-fil"; did you mean "token-file"?`},
		{twoPipelines + "  more: {token-fil: x}\n", "config check --context more", `line 6: there is no setting "token-fil"`},
		{twoPipelines + "  more: {contexts: {a: b}}\n", "config check", `there is no setting "contexts-a"`},
		{twoPipelines + "  more:\n", "config check", `context "more": must be a list of names and values`},
		{"contexts: prod\n", "config check", "line 1: contexts must be a list of names, each with its settings"},
	} {
		if code, _, errs := stillhere(t, c.file, strings.Fields(c.line)...); code != 2 || !strings.Contains(errs, c.want) || strings.Count(errs, "token-fil\"") > 1 {
			t.Errorf("%s: code %d, want %q in %s", c.line, code, c.want, errs)
		}
	}
	code, out, _ := stillhere(t, twoPipelines, "config", "check", "--context", "prod")
	if code != 0 || !strings.Contains(out, "postgres://u@db/s") || !strings.Contains(out, "stillhere.yaml:4") {
		t.Errorf("config check: code %d, %s", code, out)
	}
}

func TestTheAPIOrKafkaErasesAsTheNearestAddressSays(t *testing.T) {
	for _, c := range []struct {
		file, line string
		api        bool
	}{
		{"", "erase 1", false},
		{"", "erase 1 --url https://line", true},
		{"url: https://file\nkafka-brokers: k:1\n", "erase 1", true},
		{"url: https://file\n", "erase 1", true},
		{"kafka-brokers: k:1\n", "erase 1 --url https://line", true},
		{twoPipelines, "erase 1 --context prod", true},
		{twoPipelines, "erase 1 --context prod --kafka-brokers k:1", false},
	} {
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
