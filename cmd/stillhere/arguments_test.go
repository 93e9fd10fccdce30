package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestValuesMayBeginWithAMinus(t *testing.T) {
	parser := must.Get(newParser(&commands{}))(t)
	for _, c := range []struct{ given, want string }{
		{"replay --from -2h 1", "replay --from=-2h 1"},
		{"replay --from=-2h 1", "replay --from=-2h 1"},
		{"asof -2h 1", "asof --at=-2h 1"},
		{"asof --at -2h 1", "asof --at=-2h 1"},
		{"asof now -- -2h", "asof now -- -2h"},
		{"get --watch -5", "get --watch -5"},
		{"-V", "-V"},
	} {
		if got := withNegatives(parser.Model, strings.Fields(c.given)); !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s becomes %q, want %s", c.given, got, c.want)
		}
	}
}

func TestErrorsNameFlagsAsTypedAndTheHelpOfTheCommand(t *testing.T) {
	for given, want := range map[string]string{
		"replay --bogus":         `stillhere: unknown flag --bogus` + "\n" + `See "stillhere replay --help".`,
		"replay --from xx":       `stillhere: --from: "xx" is no time`,
		"asof":                   `stillhere: <time>: an instant must be given`,
		"beat":                   `stillhere: <user>: one user must be given` + "\n" + `See "stillhere beat --help".`,
		"token 1 --gateway g":    `stillhere: <user>, --gateway: one of the two`,
		"get --watch 0":          `stillhere: user "0": must be between 1 and`,
		"explain x 0":            `stillhere: <user>: must be between 1 and`,
		"policy set --timeout":   `See "stillhere policy set --help".`,
		"load --users 0":         `stillhere: --users: must be between`,
		"erase --all --tenant a": `stillhere: --yes: is needed with --all`,
		"erase --all --yes":      `stillhere: --tenant: is needed with --all`,
		"erase --all --tenant a --yes --url http://127.0.0.1:9": `stillhere: --all: works on Kafka`,
		"keys master gw-1":                 `stillhere: <id>, --tenant: are of keys of gateways`,
		"keys gateway --frame-keys k":      `stillhere: <id>: is needed`,
		"nonsense":                         `See "stillhere --help".`,
		"replay --from 10 --partition 0,1": `stillhere: --partition: offsets are those of one partition`,
	} {
		code, _, errs := stillhere(t, "", strings.Fields(given)...)
		if code == 0 || !strings.Contains(errs, want) {
			t.Errorf("stillhere %s: code %d, want %q in:\n%s", given, code, want, errs)
		}
	}
}

func TestEveryCommandSaysWhatItsOutputTakes(t *testing.T) {
	for given, want := range map[string]string{
		"replay --output xml":                            `stillhere: --output: must be table, json, jsonl, csv or parquet, is "xml"`,
		"policy show --output xml":                       `stillhere: --output: must be table, json, jsonl, csv or parquet, is "xml"`,
		"explain x --output csv":                         `stillhere: --output: must be table, json or jsonl, is "csv": an explanation is no row`,
		"explain x --output xml":                         `stillhere: --output: must be table, json or jsonl, is "xml"` + "\n",
		"get --watch 1 --output parquet":                 `stillhere: --output: --watch has no end, so no parquet document; use --output jsonl or csv`,
		"status --output csv":                            `stillhere: --table: --output csv has one table, which must be named: instances, partitions, groups or gateways`,
		"status --output parquet":                        `stillhere: --table: --output parquet has one table`,
		"status --watch --table groups --output json":    `stillhere: --output: --watch has no end, so no json document; use --output jsonl or csv`,
		"status --watch --table groups --output parquet": `stillhere: --output: --watch has no end, so no parquet document; use --output jsonl or csv`,
		"plan --users 5 --output xml":                    `stillhere: --output: must be table, json, jsonl, csv, parquet or helm-values, is "xml"`,
		"replay --resume --out f --output csv":           `stillhere: --resume needs --rotate-every, --rotate-size or --partition-by`,
		"replay --follow --output json":                  `stillhere: --output: --follow has no end, so no JSON document; use --output jsonl`,
		"replay --rotate-size 1M --out f --output json":  `stillhere: --rotate-every, --rotate-size, --partition-by: tables and JSON documents`,
	} {
		if code, _, errs := stillhere(t, "", strings.Fields(given)...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("stillhere %s: code %d, want %q in:\n%s", given, code, want, errs)
		}
	}
}

func TestEveryCommandWithRowsTakesTheSameFormatsInTheSameWords(t *testing.T) {
	const formats = "table,json,jsonl,csv,parquet"
	fewer := map[string]string{"explain": "table,json,jsonl"}
	more := map[string]string{"plan": ",helm-values", "topics acls": ",commands"}
	page := must.Get(os.ReadFile("../../docs/how-to/command-line.md"))(t)
	_, exceptions, _ := strings.Cut(string(page), "| exception |")
	exceptions, _, _ = strings.Cut(exceptions, "\n\n")
	parser := must.Get(newParser(&commands{}))(t)
	found := 0
	for _, command := range parser.Model.Leaves(true) {
		flag := flagOf(command, "--output")
		if flag == nil {
			continue
		}
		found++
		name := nameOf(command)
		takes := flag.Tag.Get("takes") + flag.Tag.Enum
		if fewer[name]+more[name] != "" && !strings.Contains(exceptions, "\n| `"+name+"` |") {
			t.Errorf("the documentation does not say what %s has", name)
		}
		if fewer[name] != "" {
			if takes != fewer[name] {
				t.Errorf("%s takes %s, want %s", name, takes, fewer[name])
			}
		} else if takes != formats+more[name] || !strings.HasPrefix(flag.Help, outputHelp) {
			t.Errorf("%s takes %s: %s", name, takes, flag.Help)
		}
	}
	if found < 16 {
		t.Errorf("only %d commands have --output", found)
	}
}

// nameOf is a command without the program and its arguments.
func nameOf(command *kong.Node) string {
	if command.Parent == nil || command.Parent.Parent == nil {
		return command.Name
	}
	return nameOf(command.Parent) + " " + command.Name
}

func TestEveryFormatOfAnOutputIsNamedInItsHelp(t *testing.T) {
	parser := must.Get(newParser(&commands{}))(t)
	must.Do(t, kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && !flag.Hidden && flag.Name == "output" {
			for format := range strings.SplitSeq(flag.Tag.Get("takes"), ",") {
				if !strings.Contains(flag.Help, format) {
					t.Errorf("%q does not name %q", flag.Help, format)
				}
			}
		}
		return next(nil)
	}))
}

func TestHelpOfDataCommandsTeachesByExamplesAndEndsWithKafka(t *testing.T) {
	parser := must.Get(newParser(&commands{}))(t)
	for _, name := range strings.Fields("get history audience override beat token replay asof sessions backtest record explain erase export") {
		node := childOf(parser.Model.Node, name)
		if !strings.Contains(node.Detail, "\n    stillhere "+name+" ") {
			t.Errorf("the help of %s has no example", name)
		}
		var groups []string
		for _, flag := range node.Flags {
			if group := flag.Group; group != nil && !slices.Contains(groups, group.Title) {
				groups = append(groups, group.Title)
			}
		}
		if i := slices.Index(groups, "Kafka:"); i >= 0 && i != len(groups)-1 {
			t.Errorf("the help of %s has groups %q: Kafka is not the last", name, groups)
		}
	}
}

func TestAHintRepeatsTheCommandLineWithoutItsSecrets(t *testing.T) {
	for _, c := range []struct {
		given []string
		more  string
		want  string
	}{
		{[]string{"replay", "--out", "a b", "--kafka-brokers", "k:1"}, "--resume", "stillhere replay --out 'a b' --kafka-brokers k:1 --resume"},
		{[]string{"replay", "--out", "x", "--rotate-every", "1h", "--resume"}, "--resume", "stillhere replay --out x --rotate-every 1h --resume"},
		{[]string{"replay", "--out", "it's", "--postgres=postgres://u:p@h/d"}, "--resume",
			`stillhere replay --out 'it'\''s' --postgres=postgres://u:xxxxx@h/d --resume`},
		{[]string{"replay", "--out", "x", "--postgres", "postgres://u:p@h/d"}, "--resume", `stillhere replay --out x --postgres '(hidden)' --resume`},
	} {
		parser := must.Get(newParser(&commands{}))(t)
		parsed := must.Get(parser.Parse(c.given))(t)
		if got := givenArguments(c.given).again(parsed, c.more); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
