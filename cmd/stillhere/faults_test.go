package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// Not parallel, as commands read the environment.
func TestFaultsNameWhatWasTypedAndWhereTheCommandIsExplained(t *testing.T) {
	for given, want := range map[string]string{
		"replay --follow --to now":     "stillhere: --follow has no end",
		"plan":                         "stillhere: --users: ",
		"beat 0 --ids int":             "stillhere: <user>: must be between 1 and 9223372036854775807; with --ids text users have names",
		"asof now ann":                 `stillhere: user "ann": must be between 1 and 9223372036854775807; with --ids text users have names`,
		"replay --state on":            `stillhere: --state: must be one of offline away online, is "on"`,
		"replay --cause why":           `audience, is "why"`,
		"explain":                      "stillhere: <event-id>: must be given, or a user and --at",
		"explain 1 --at soon":          `stillhere: --at: "soon" is no time`,
		"explain --at now":             "stillhere: --at: the user must be given",
		"backtest --policy nofile":     `stillhere: --policy: "nofile" is neither a preset nor NAME=VALUE: `,
		"rebuild lastseen":             "stillhere: --postgres, --sqlite: one of the two must name the store",
		"import last-seen faults.go":   "stillhere: --postgres, --sqlite: one of the two must name the store",
		"migrate":                      "stillhere: --postgres: a URL is needed",
		"policy show ab --tenant acme": "stillhere: --tenant: an id names one policy",
	} {
		words := strings.Fields(given)
		command := "stillhere " + words[0]
		if words[0] == "import" || words[0] == "policy" {
			command += " " + words[1]
		}
		code, _, errs := stillhere(t, "", words...)
		if code != 2 || !strings.Contains(errs, want) || !strings.Contains(errs, `See "`+command+` --help".`) {
			t.Errorf("stillhere %s: code %d, want %q in:\n%s", given, code, want, errs)
		}
	}
}

// Not parallel, as commands read the environment.
func TestAServerThatDoesNotListenIsNamedByTheFlagsOfTheCommand(t *testing.T) {
	for given, want := range map[string]string{
		"get 1 --url http://127.0.0.1:1":          "; --url sets the address",
		"policy show --kafka-brokers 127.0.0.1:1": "; --kafka-brokers sets the address",
		"health --admin 127.0.0.1:1":              "; --admin sets the address",
		"replay --kafka-brokers 127.0.0.1:1":      "; --kafka-brokers and --postgres set the addresses",
	} {
		code, _, errs := stillhere(t, "", strings.Fields(given)...)
		if code != 1 || !strings.Contains(errs, "no server listens at this address"+want) {
			t.Errorf("stillhere %s: code %d, want %q in:\n%s", given, code, want, errs)
		}
	}
}

// Not parallel, as commands read the environment.
func TestARefusedTokenSaysWhereTokensComeFrom(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			web.Write(w, http.StatusUnauthorized, &schemas.FieldError{Code: "no_token", Reason: "a token is needed"})
			return
		}
		web.Write(w, http.StatusForbidden, &schemas.FieldError{Code: "insufficient_scope", Reason: "the token lacks a scope"})
	}))
	defer server.Close()
	for given, want := range map[string][2]string{
		"get 1":         {"the server answers 401 no_token: a token is needed", "--token-file FILE or STILLHERE_TOKEN"},
		"beat 1":        {"the server answers 401 no_token: a token is needed", "--token-file FILE or STILLHERE_TOKEN"},
		"status":        {"the server answers 401 no_token: a token is needed", "--token-file FILE or STILLHERE_TOKEN"},
		"get --watch 1": {"the server refuses the stream: 401", "--token-file FILE or STILLHERE_TOKEN"},
		"status x":      {"the server answers 403 insufficient_scope: the token lacks a scope", "stillhere token --scope SCOPE"},
	} {
		given, token := strings.CutSuffix(given, " x")
		t.Setenv("STILLHERE_TOKEN", map[bool]string{true: "x"}[token])
		code, _, errs := stillhere(t, "", append(strings.Fields(given), "--url", server.URL)...)
		if code != 1 || !strings.Contains(errs, want[0]) || !strings.Contains(errs, want[1]) {
			t.Errorf("stillhere %s: code %d, want %q in:\n%s", given, code, want, errs)
		}
	}
}

func TestFaultsOfSeveralSettingsNameTheirFlags(t *testing.T) {
	t.Parallel()
	parser := must.Get(newParser(&commands{}))(t)
	node := childOf(parser.Model.Node, "all")
	for given, want := range map[string]string{
		"fanout_rate: is wrong":                  "--fanout-rate: is wrong",
		"fanout_rate, fanout_gap: are wrong":     "--fanout-rate, --fanout-gap: are wrong",
		"fanout_rate, nothing: are wrong":        "fanout_rate, nothing: are wrong",
		"looking, in vain: brokers: are not set": "looking, in vain: brokers: are not set",
	} {
		if got := asTyped(node, errorText(given)).Error(); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
	}
	const given, want = "setting the audience of user 2: the server answers 403 forbidden: user_id: is not", "setting the audience of user 2: the server answers 403 forbidden: <user>: is not"
	if got := asTyped(childOf(parser.Model.Node, "audience"), errorText(given)).Error(); got != want {
		t.Errorf("%q becomes %q, want %q", given, got, want)
	}
}

// errorText is an error with a text.
type errorText string

func (e errorText) Error() string { return string(e) }
