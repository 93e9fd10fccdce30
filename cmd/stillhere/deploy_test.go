package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/testkit/manifests"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

// parse reads a command line and these settings as the program would, with no
// other settings in the environment.
func parse(t *testing.T, words []string, settings map[string]string) (*kong.Context, error) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "STILLHERE_") {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	for name, value := range settings {
		t.Setenv(name, value)
	}
	parser := must.Get(newParser(new(commands)))(t)
	return parser.Parse(words)
}

// known are the names in the environment that the chosen command reads.
func known(chosen *kong.Context) []string {
	var names []string
	for _, flag := range chosen.Flags() {
		names = append(names, flag.Envs...)
	}
	return names
}

// checkCommand holds the command line of a container true.
func checkCommand(t *testing.T, where string, words []string, settings map[string]string) {
	t.Helper()
	chosen, err := parse(t, words, settings)
	if err != nil {
		t.Errorf("%s: stillhere %s is refused: %v", where, strings.Join(words, " "), err)
		return
	}
	read := known(chosen)
	for name := range settings {
		if !slices.Contains(read, name) {
			t.Errorf("%s: stillhere %s does not read %s", where, strings.Join(words, " "), name)
		}
	}
}

// checkRole holds the settings of a role to what it checks when it starts. Files come from Secrets.
func checkRole(t *testing.T, where string, chosen *kong.Context) {
	t.Helper()
	command, ok := chosen.Selected().Target.Addr().Interface().(*roleCommand)
	if !ok {
		return
	}
	err := app.Check(chosen.Selected().Name, command.config())
	for fault := range strings.Lines(fmt.Sprint(err)) {
		if err != nil && !strings.Contains(fault, "/etc/stillhere/") {
			t.Errorf("%s would not start: %s", where, fault)
		}
	}
}

// Not parallel, as parse sets the environment.
func TestEveryCommandLineOfComposeIsUnderstood(t *testing.T) {
	compose := must.Get(manifests.ReadCompose())(t)
	roles := map[string]bool{}
	for name, service := range compose.Services {
		if !manifests.RunsStillhere(service) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			checkCommand(t, name, service.Command, manifests.Settings(service))
			if chosen, err := parse(t, service.Command, manifests.Settings(service)); err == nil {
				checkRole(t, name, chosen)
			}
			if check := service.HealthCheck; check != nil && len(check.Test) > 2 {
				// It runs in the same environment.
				if _, err := parse(t, check.Test[2:], manifests.Settings(service)); err != nil {
					t.Errorf("%s: its health check %v is refused: %v", name, check.Test, err)
				}
			}
		})
		roles[service.Command[0]] = true
	}
	for _, role := range app.Roles {
		if role.Name != "all" && !roles[role.Name] {
			t.Errorf("no service runs the role %s", role.Name)
		}
	}
	for _, step := range []string{"topics", "migrate", "load"} {
		if !roles[step] {
			t.Errorf("no service runs stillhere %s", step)
		}
	}
}

func TestTheImagesOwnCommandsAreUnderstood(t *testing.T) {
	instructions := must.Get(manifests.ReadDockerfile())(t)
	words := must.Get(manifests.Of(instructions, "", "HEALTHCHECK")[0].Exec())(t)
	if _, err := parse(t, words[1:], nil); err != nil {
		t.Errorf("%v is refused: %v", words, err)
	}
}

func TestANameThatNobodyReadsIsNoticed(t *testing.T) {
	chosen := must.Get(parse(t, []string{"detector"}, map[string]string{"STILLHERE_NO_SUCH_THING": "1"}))(t)
	if read := known(chosen); slices.Contains(read, "STILLHERE_NO_SUCH_THING") || !slices.Contains(read, "STILLHERE_KAFKA_BROKERS") {
		t.Errorf("read are %v", read)
	}
}
