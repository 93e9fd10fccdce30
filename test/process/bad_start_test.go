//go:build unix

package process_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/schemas"
)

// badStart is a start that must be refused.
type badStart struct {
	arguments []string
	change    func(*exec.Cmd)
	code      int
	lines     int      // on standard error
	says      []string // what these lines name
}

// refused checks that a start is refused as it must be, soon, and without a word
// on standard output. It returns what was on standard error.
func refused(t *testing.T, b badStart) (said string) {
	t.Helper()
	p := start(t, binary(t, "stillhere"), b.change, b.arguments...)
	if code := p.wait(40 * time.Second); code != b.code {
		t.Errorf("the exit code is %d, must be %d", code, b.code)
	}
	said = p.err.String()
	if lines := p.err.lines(); len(lines) != b.lines || strings.Count(said, "\n") != len(lines) || !strings.HasPrefix(said, "stillhere: ") {
		t.Errorf("standard error has %d lines, must have %d, and begin with stillhere:\n%s", len(lines), b.lines, said)
	}
	for _, word := range b.says {
		if !strings.Contains(said, word) {
			t.Errorf("standard error does not say %q:\n%s", word, said)
		}
	}
	if out := p.out.String(); out != "" {
		t.Errorf("standard output is not empty: %s", out)
	}
	return said
}

// devArguments start dev in dir on free ports.
func devArguments(t *testing.T, dir string, more ...string) []string {
	return append([]string{"dev", "--data-dir", dir, "--listen", freePort(t), "--kafka-listen", freePort(t)}, more...)
}

// addressesOf are the addresses among arguments on which dev would listen.
func addressesOf(arguments []string) (all []string) {
	for i, a := range arguments[:len(arguments)-1] {
		if a == "--listen" || a == "--kafka-listen" || a == "--admin" {
			all = append(all, arguments[i+1])
		}
	}
	return all
}

func TestAPortInUseIsSaidAndNothingIsStarted(t *testing.T) {
	t.Parallel()
	binary(t, "stillhere")
	for _, flag := range []string{"--listen", "--admin", "--kafka-listen"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			taken, err := net.Listen("tcp", freePort(t))
			if err != nil {
				t.Fatal(err)
			}
			defer taken.Close()
			dir := filepath.Join(t.TempDir(), "data")
			arguments := devArguments(t, dir, flag, taken.Addr().String())
			refused(t, badStart{arguments: arguments, code: 1, lines: 1, says: []string{taken.Addr().String(), "in use"}})
			for _, address := range addressesOf(arguments) {
				if address != taken.Addr().String() && !portIsFree(address) {
					t.Errorf("%s is not free afterwards", address)
				}
			}
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("the data directory was made although nothing was started")
			}
		})
	}
}

func TestADataDirectoryThatCannotBeUsedIsSaid(t *testing.T) {
	t.Parallel()
	binary(t, "stillhere")
	t.Run("a file", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "data")
		if err := os.WriteFile(file, []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
		refused(t, badStart{arguments: devArguments(t, file), code: 1, lines: 1, says: []string{file, "not a directory"}})
		if content, err := os.ReadFile(file); err != nil || string(content) != "mine" {
			t.Errorf("the file holds %q: %v", content, err)
		}
	})
	t.Run("unreadable", func(t *testing.T) {
		t.Parallel()
		// Not under t.TempDir, into which only its owner may look.
		above, err := os.MkdirTemp("", "stillhere-unreadable-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(above) })
		dir := filepath.Join(above, "data")
		if err := os.Mkdir(dir, 0o000); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(above, 0o755); err != nil {
			t.Fatal(err)
		}
		// Nothing is unreadable for root, so the process runs as somebody else.
		asNobody := func(c *exec.Cmd) {
			if os.Geteuid() == 0 {
				c.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
				c.Dir = above
			}
		}
		refused(t, badStart{arguments: devArguments(t, dir), change: asNobody, code: 1, lines: 1, says: []string{dir, "permission denied"}})
	})
	t.Run("in use", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.up()
		h.mustSend(beat{User: 1, Device: 1})
		arguments := devArguments(t, h.dir)
		refused(t, badStart{arguments: arguments, code: 1, lines: 1, says: []string{h.dir, "in use by another process"}})
		for _, address := range addressesOf(arguments) {
			if !portIsFree(address) {
				t.Errorf("%s is not free afterwards", address)
			}
		}
		h.mustSend(beat{User: 2, Device: 1})
		h.allAre("online", []schemas.UserID{1, 2})
	})
}

func TestWrongSettingsAreAllSaidAndNothingIsMade(t *testing.T) {
	t.Parallel()
	binary(t, "stillhere")
	for name, b := range map[string]struct {
		flags []string
		lines int
		says  []string
	}{
		"time to live":         {[]string{"--heartbeat-interval", "4s", "--online-ttl", "7s"}, 1, []string{"online_ttl", "7s", "two heartbeat intervals"}},
		"many faults at once":  {[]string{"--online-ttl", "0s", "--heartbeat-interval", "1s", "--away-ttl=-1s", "--cohort-rate", "0"}, 5, []string{"online_ttl", "away_ttl", "cohort_rate"}},
		"away before silent":   {[]string{"--away-ttl", "20s"}, 1, []string{"away_ttl", "20s", "online_ttl"}},
		"other machines":       {[]string{"--listen", "0.0.0.0:8080"}, 1, []string{"0.0.0.0:8080", "--allow-unauthenticated"}},
		"every address":        {[]string{"--listen", ":8080"}, 1, []string{":8080", "--allow-unauthenticated"}},
		"no port":              {[]string{"--listen", "localhost"}, 1, []string{"localhost", "host:port"}},
		"no Kafka port":        {[]string{"--kafka-listen", "localhost"}, 1, []string{"localhost", "host:port"}},
		"Kafka for everybody":  {[]string{"--kafka-listen", "0.0.0.0:0"}, 1, []string{"0.0.0.0:0", "name one address"}},
		"admin without a port": {[]string{"--admin", "localhost"}, 1, []string{"localhost"}},
		"no partitions":        {[]string{"--partitions", "0"}, 1, []string{"partitions"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			refused(t, badStart{arguments: devArguments(t, dir, b.flags...), code: 1, lines: b.lines, says: b.says})
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("the data directory was made although nothing was started")
			}
		})
	}
}

func TestWrongUseIsExitCode2(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]badStart{
		"flag":  {arguments: []string{"dev", "--online-tll", "3s"}, says: []string{"--online-tll"}},
		"role":  {arguments: []string{"detecter"}, says: []string{"detecter"}},
		"value": {arguments: []string{"dev", "--online-ttl", "soon"}, says: []string{"--online-ttl", "soon"}},
		"none":  {arguments: nil, says: []string{"--help"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b.code, b.lines = 2, 2 // the second tells where to read on
			dir := t.TempDir()
			b.change = func(c *exec.Cmd) { c.Dir = dir }
			refused(t, b)
			if made, err := os.ReadDir(dir); err != nil || len(made) > 0 {
				t.Errorf("it made %v (%v)", made, err)
			}
		})
	}
}

func TestARoleThatCannotWorkSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	cluster, err := embedded.StartKafka(embedded.KafkaConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	broker := cluster.Addrs()[0]
	client, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	// create makes the topics under a prefix, some of them wrongly.
	create := func(t *testing.T, prefix string, change func(*schemas.TopicSpec, *int32)) {
		t.Helper()
		admin := kadm.NewClient(client)
		for _, spec := range schemas.Topics() {
			partitions := int32(3)
			change(&spec, &partitions)
			if partitions == 0 {
				continue
			}
			config := map[string]*string{}
			for name, value := range spec.Config {
				config[name] = &value
			}
			response, err := admin.CreateTopic(t.Context(), partitions, 1, config, spec.Topic.Name(prefix))
			if err != nil || response.Err != nil {
				t.Fatal(err, response.Err)
			}
		}
	}
	create(t, "createtime.", func(spec *schemas.TopicSpec, _ *int32) { delete(spec.Config, "message.timestamp.type") })
	create(t, "counts.", func(spec *schemas.TopicSpec, partitions *int32) {
		if spec.Topic == schemas.Transitions {
			*partitions = 5
		}
	})
	create(t, "both.", func(spec *schemas.TopicSpec, partitions *int32) {
		delete(spec.Config, "message.timestamp.type")
		if spec.Topic == schemas.Statuses {
			*partitions = 1
		}
	})
	create(t, "gap.", func(spec *schemas.TopicSpec, partitions *int32) {
		if spec.Topic == schemas.DeadLetter {
			*partitions = 0
		}
	})
	if _, err := admin.ApplyTopics(t.Context(), kafka.Config{Brokers: []string{broker}}, 3, 1); err != nil {
		t.Fatal(err)
	}
	nowhere := freePort(t)
	detector := func(prefix string) []string { return []string{"detector", "--admin=", "--topic-prefix", prefix} }
	for name, b := range map[string]badStart{
		"times of the producers":    {arguments: detector("createtime."), lines: 1, says: []string{"createtime.heartbeats", "message.timestamp.type", "CreateTime", "LogAppendTime"}},
		"numbers of partitions":     {arguments: detector("counts."), lines: 1, says: []string{"counts.transitions", "5 partitions", "3"}},
		"both":                      {arguments: detector("both."), lines: 2, says: []string{"both.heartbeats", "LogAppendTime", "both.status", "1 partition"}},
		"a topic that is not there": {arguments: detector("gap."), lines: 1, says: []string{"gap.deadletter", "does not exist", "topics apply"}},
		"no topic at all":           {arguments: detector("nothing."), lines: len(schemas.Topics()), says: []string{"nothing.heartbeats", "topics apply"}},
		"topics check":              {arguments: []string{"topics", "check", "--topic-prefix", "counts."}, lines: 1, says: []string{"counts.transitions"}},
		"no Kafka":                  {arguments: []string{"detector", "--admin=", "--kafka-brokers", nowhere}, lines: 1, says: []string{nowhere}},
		"no Postgres":               {arguments: []string{"lastseen"}, lines: 1, says: []string{"postgres", "URL"}},
		"a name with a blank":       {arguments: []string{"detector", "--instance", "a b"}, lines: 1, says: []string{"instance", "a b"}},
		"doors for everybody":       {arguments: []string{"ingest", "--listen", "0.0.0.0:8080"}, lines: 1, says: []string{"0.0.0.0:8080", "--allow-unauthenticated"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b.code = 1
			if !slices.Contains(b.arguments, "--kafka-brokers") {
				b.arguments = append(b.arguments, "--kafka-brokers", broker)
			}
			refused(t, b)
		})
	}
}
