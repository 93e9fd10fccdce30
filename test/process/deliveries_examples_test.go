//go:build unix

package process

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// nodePackages is the folder of the packages that STILLHERE_TEST_NODE_MODULES names. It skips the test if one of
// these is missing.
func nodePackages(t *testing.T, names ...string) string {
	t.Helper()
	packages := filepath.Join(os.Getenv("STILLHERE_TEST_NODE_MODULES"), "node_modules")
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(packages, name)); err != nil {
			t.Skipf("STILLHERE_TEST_NODE_MODULES names no folder with %s", name)
		}
	}
	return packages
}

// typescript prepares the example in a folder where Node finds its packages: those of the folder
// that STILLHERE_TEST_NODE_MODULES names, in which "npm install kafkajs kafkajs-snappy protobufjs
// tsx" was run.
func typescript(t *testing.T) (tsx, program string) {
	t.Helper()
	packages := nodePackages(t, "kafkajs", "kafkajs-snappy", "protobufjs", "tsx")
	dir := t.TempDir()
	text := must.Get(os.ReadFile(example(t, "deliveries.mts")))(t)
	program = filepath.Join(dir, "examples", "deliveries.mts")
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "examples"), 0o700), os.WriteFile(program, text, 0o600),
		os.Symlink(packages, filepath.Join(dir, "node_modules")),
		os.Symlink(filepath.Join(filepath.Dir(example(t, "x")), "..", "proto"), filepath.Join(dir, "proto")),
	} {
		must.Do(t, err)
	}
	return filepath.Join(packages, ".bin", "tsx"), program
}

func TestTheExamplesForDeliveriesNameEachRecipientOncePerVersion(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]func(ctx context.Context, t *testing.T, arguments ...string) *exec.Cmd{
		"python": func(ctx context.Context, t *testing.T, arguments ...string) *exec.Cmd {
			command := exec.CommandContext(ctx, python(t), append([]string{example(t, "deliveries.py")}, arguments...)...)
			command.Env = append(os.Environ(), pythonMessages(ctx, t)...)
			return command
		},
		"typescript": func(ctx context.Context, t *testing.T, arguments ...string) *exec.Cmd {
			tsx, program := typescript(t)
			return exec.CommandContext(ctx, tsx, append([]string{program}, arguments...)...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			config := kafkatest.Start(t, identity.Users{}, 1)
			producer := kafkatest.Producer(t, config)
			change := schemas.Transition{User: 42, From: schemas.Offline, To: schemas.Online, At: 1_795_168_800_123, Cause: schemas.FirstBeat,
				Visibility: schemas.Everyone, Version: schemas.NewVersion(1, 1<<40, 0)}
			first := schemas.Delivery{Transition: &change, Recipients: []schemas.UserID{7, 9, 1 << 60}}
			later := change
			later.To, later.From, later.Cause, later.At, later.Version = schemas.Offline, schemas.Online, schemas.Bye, change.At+900, change.Version+1
			last := schemas.Delivery{Transition: &later, Recipients: []schemas.UserID{9}}
			for _, v := range [][]byte{first.Encode(), first.Encode(), append([]byte{0, 0, 0, 0, 7, 2, 4}, last.Encode()...)} { // one twice, one with a registry's head
				must.Do(t, producer.AppendSync(ctx, schemas.Outgoing{Topic: schemas.Deliveries, Key: schemas.JobKey(42, 0), Value: v}))
			}
			const want = "2026-11-20T10:00:00.123Z tell 7: user 42 is online (first_beat)\n" +
				"2026-11-20T10:00:00.123Z tell 9: user 42 is online (first_beat)\n" +
				"2026-11-20T10:00:00.123Z tell 1152921504606846976: user 42 is online (first_beat)\n" +
				"2026-11-20T10:00:01.023Z tell 9: user 42 is offline (bye)\n"
			if got := outputOf(t, command(ctx, t, config.Brokers[0], "4")); got != want {
				t.Errorf("read\n%s, want\n%s", got, want)
			}
		})
	}
}
