//go:build unix

package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// python is one with confluent-kafka and protobuf: python3, or the one that
// STILLHERE_TEST_PYTHON names.
func python(t *testing.T) string {
	t.Helper()
	name := os.Getenv("STILLHERE_TEST_PYTHON")
	if name == "" {
		name = "python3"
	}
	if err := exec.Command(name, "-c", "import confluent_kafka, google.protobuf").Run(); err != nil {
		t.Skipf("no Python with confluent-kafka and protobuf (%v): name one in STILLHERE_TEST_PYTHON", err)
	}
	if _, err := exec.LookPath("protoc"); err != nil {
		t.Skip("no protoc to make Python of the messages")
	}
	return name
}

// pythonMessages makes Python of the messages and returns the environment in which it is found.
func pythonMessages(ctx context.Context, t *testing.T) []string {
	t.Helper()
	dir, lines := t.TempDir(), 0
	for _, document := range []string{example(t, filepath.Join("..", "README.md")), example(t, "presence.py"), example(t, "deliveries.py")} {
		text := must.Get(os.ReadFile(document))(t)
		for _, line := range regexp.MustCompile(`protoc -I \.\./proto .*`).FindAllString(string(text), -1) {
			into := filepath.Join(dir, strconv.Itoa(lines)) // what one line makes must be enough
			must.Do(t, os.Mkdir(into, 0o700))
			command := exec.CommandContext(ctx, "sh", "-c", strings.Replace(line, "--python_out=.", "--python_out="+into, 1))
			command.Dir = filepath.Dir(example(t, "presence.py"))
			if out, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", line, err, out)
			}
			for _, message := range []string{"frame", "transition", "policy"} {
				if _, err := os.Stat(filepath.Join(into, "stillhere", "v1", message+"_pb2.py")); err != nil {
					t.Fatalf("%s says %q, which leaves out what the messages import: %v", document, line, err)
				}
			}
			lines++
		}
	}
	if lines < 4 {
		t.Fatalf("%d lines with protoc are documented", lines)
	}
	dir = filepath.Join(dir, "0")
	return []string{"PYTHONPATH=" + dir, "PYTHONDONTWRITEBYTECODE=1"}
}

// example is the path of an example of the schemas.
func example(t *testing.T, name string) string {
	t.Helper()
	return must.Get(filepath.Abs(filepath.Join("..", "..", "schemas", "examples", name)))(t)
}

// outputOf runs a command, which has to succeed.
func outputOf(t *testing.T, command *exec.Cmd) string {
	t.Helper()
	var said strings.Builder // the client's own log
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s%s", command.Args, err, out, said.String())
	}
	return string(out)
}

func TestThePythonExampleReadsWhatWasCommittedAndPutsBeatsWhereTheyBelong(t *testing.T) {
	t.Parallel()
	interpreter := python(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const partitions = 6
	config := kafkatest.Start(t, identity.Users{}, partitions)
	producer := kafkatest.Producer(t, config)
	change := schemas.Transition{User: 42, From: schemas.Offline, To: schemas.Online, At: 1_795_168_800_123, Cause: schemas.FirstBeat,
		Visibility: schemas.Everyone, Version: schemas.NewVersion(1, 1000, 0)}
	value := change.Encode()
	later := change
	later.To, later.From, later.Cause, later.At, later.Version = schemas.Offline, schemas.Online, schemas.Bye, change.At+900, change.Version+4096
	for _, v := range [][]byte{value, value, append([]byte{0, 0, 0, 0, 7, 0}, later.Encode()...)} { // one twice, one with a registry's head
		must.Do(t, producer.AppendSync(ctx, schemas.Outgoing{Topic: schemas.Transitions, Partition: schemas.PartitionOf(42, partitions), Key: change.User.Key(), Value: v}))
	}

	messages := pythonMessages(ctx, t)
	run := func(arguments ...string) string {
		t.Helper()
		command := exec.CommandContext(ctx, interpreter, append([]string{example(t, "presence.py"), config.Brokers[0]}, arguments...)...)
		command.Env = append(os.Environ(), messages...)
		return outputOf(t, command)
	}
	want := "2026-11-20T10:00:00.123+00:00 user 42 is online (first_beat)\n2026-11-20T10:00:01.023+00:00 user 42 is offline (bye)\n"
	if got := run("watch", "2"); got != want {
		t.Errorf("read\n%s, want\n%s", got, want)
	}
	for _, user := range []schemas.UserID{1, 2, 42, 1 << 40} {
		want := fmt.Sprintf("written to partition %d", schemas.PartitionOf(user, partitions))
		if got := strings.TrimSpace(run("beat", fmt.Sprint(user), "7")); got != want {
			t.Errorf("user %d: %s, want %s", user, got, want)
		}
	}
	reader := kafkatest.Reader(t, config)
	beats := 0
	for p := range int32(partitions) {
		err := reader.Read(ctx, schemas.Heartbeats, p, -1, -1, false, func(r *schemas.Record) error {
			var frame schemas.Frame
			if err := frame.Decode(r.Value); err != nil {
				return err
			}
			beats += frame.Rows()
			return nil
		})
		must.Do(t, err)
	}
	if beats != 4 {
		t.Errorf("%d beats, want 4", beats)
	}
}
