//go:build unix

package process_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/testkit/freeport"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

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
	testkit.Binary(t, "stillhere")
	for _, flag := range []string{"--listen", "--admin", "--kafka-listen"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			taken := must.Get(net.Listen("tcp", testkit.FreePort(t)))(t)
			defer taken.Close()
			dir := filepath.Join(t.TempDir(), "data")
			arguments := testkit.DevArguments(t, dir, flag, taken.Addr().String())
			testkit.Refused(t, testkit.BadStart{Arguments: arguments, Code: 1, Lines: 1, Says: []string{taken.Addr().String(), "in use"}})
			for _, address := range addressesOf(arguments) {
				if address != taken.Addr().String() && !freeport.IsFree(address) {
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
	testkit.Binary(t, "stillhere")
	t.Run("a file", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "data")
		must.Do(t, os.WriteFile(file, []byte("mine"), 0o644))
		testkit.Refused(t, testkit.BadStart{Arguments: testkit.DevArguments(t, file), Code: 1, Lines: 1, Says: []string{file, "not a directory"}})
		if content, err := os.ReadFile(file); err != nil || string(content) != "mine" {
			t.Errorf("the file holds %q: %v", content, err)
		}
	})
	t.Run("unreadable", func(t *testing.T) {
		t.Parallel()
		// Not under t.TempDir, into which only its owner may look.
		above := must.Get(os.MkdirTemp("", "stillhere-unreadable-"))(t)
		t.Cleanup(func() { os.RemoveAll(above) })
		dir := filepath.Join(above, "data")
		must.Do(t, os.Mkdir(dir, 0o000))
		must.Do(t, os.Chmod(above, 0o755))
		// Nothing is unreadable for root, so the process runs as somebody else.
		asNobody := func(c *exec.Cmd) {
			if os.Geteuid() == 0 {
				c.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
				c.Dir = above
			}
		}
		testkit.Refused(t, testkit.BadStart{Arguments: testkit.DevArguments(t, dir), Change: asNobody, Code: 1, Lines: 1, Says: []string{dir, "permission denied"}})
	})
	t.Run("in use", func(t *testing.T) {
		t.Parallel()
		h := testkit.NewDev(t)
		h.Up()
		h.MustSend(testkit.Beat{User: 1, Device: 1})
		arguments := testkit.DevArguments(t, h.Dir)
		testkit.Refused(t, testkit.BadStart{Arguments: arguments, Code: 1, Lines: 1, Says: []string{h.Dir, "in use by another process"}})
		for _, address := range addressesOf(arguments) {
			if !freeport.IsFree(address) {
				t.Errorf("%s is not free afterwards", address)
			}
		}
		h.MustSend(testkit.Beat{User: 2, Device: 1})
		h.AllAre("online", []schemas.UserID{1, 2})
	})
}

func TestWrongSettingsAreAllSaidAndNothingIsMade(t *testing.T) {
	t.Parallel()
	testkit.Binary(t, "stillhere")
	for name, b := range map[string]struct {
		flags []string
		lines int
		says  []string
	}{
		"time to live":         {[]string{"--policy=heartbeat_interval=4s,online_ttl=7s"}, 1, []string{"online_ttl", "7s", "two heartbeat intervals"}},
		"many faults at once":  {[]string{"--policy=online_ttl=0s,heartbeat_interval=1s,away_ttl=-1s,cohort_rate=0"}, 5, []string{"online_ttl", "away_ttl", "cohort_rate"}},
		"away before silent":   {[]string{"--policy=away_ttl=20s"}, 1, []string{"away_ttl", "20s", "online_ttl"}},
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
			testkit.Refused(t, testkit.BadStart{Arguments: testkit.DevArguments(t, dir, b.flags...), Code: 1, Lines: b.lines, Says: b.says})
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("the data directory was made although nothing was started")
			}
		})
	}
}

func TestWrongUseIsExitCode2(t *testing.T) {
	t.Parallel()
	for word, arguments := range map[string][]string{
		"--online-tll": {"dev", "--online-tll", "3s"}, "detecter": {"detecter"}, "soon": {"dev", "--policy=online_ttl=soon"}, "--help": nil,
	} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			testkit.Refused(t, testkit.BadStart{Arguments: arguments, Code: 2, Lines: 2, // the second names the documentation
				Says: []string{word}, Change: func(c *exec.Cmd) { c.Dir = dir }})
			if made, err := os.ReadDir(dir); err != nil || len(made) > 0 {
				t.Errorf("it made %v (%v)", made, err)
			}
		})
	}
}

func TestARoleThatCannotWorkSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	cluster := must.Get(embedded.StartKafka(embedded.KafkaConfig{}))(t)
	t.Cleanup(cluster.Close)
	broker := cluster.Addrs()[0]
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(broker)))(t)
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
	must.Get(admin.ApplyTopics(t.Context(), kafka.Config{Brokers: []string{broker}}, 3, 1))(t)
	nowhere := testkit.FreePort(t)
	detector := func(prefix string) []string { return []string{"detector", "--admin=", "--topic-prefix", prefix} }
	for name, b := range map[string]testkit.BadStart{
		"times of the producers":    {Arguments: detector("createtime."), Lines: 2, Says: []string{"createtime.heartbeats", "createtime.gateways", "message.timestamp.type", "CreateTime", "LogAppendTime"}},
		"numbers of partitions":     {Arguments: detector("counts."), Lines: 1, Says: []string{"counts.transitions", "5 partitions", "3"}},
		"both":                      {Arguments: detector("both."), Lines: 3, Says: []string{"both.heartbeats", "LogAppendTime", "both.gateways", "both.status", "1 partition"}},
		"a topic that is not there": {Arguments: detector("gap."), Lines: 1, Says: []string{"gap.deadletter", "does not exist", "topics apply"}},
		"no topic at all":           {Arguments: detector("nothing."), Lines: len(schemas.Topics()), Says: []string{"nothing.heartbeats", "topics apply"}},
		"topics apply --dry-run":    {Arguments: []string{"topics", "apply", "--dry-run", "--topic-prefix", "counts."}, Lines: 1, Says: []string{"counts.transitions"}},
		"no Kafka":                  {Arguments: []string{"detector", "--admin=", "--kafka-brokers", nowhere}, Lines: 1, Says: []string{nowhere}},
		"no Postgres":               {Arguments: []string{"lastseen"}, Lines: 1, Says: []string{"postgres", "URL"}},
		"a name with a blank":       {Arguments: []string{"detector", "--instance", "a b"}, Lines: 1, Says: []string{"instance", "a b"}},
		"endpoints for everybody":   {Arguments: []string{"ingest", "--listen", "0.0.0.0:8080"}, Lines: 1, Says: []string{"0.0.0.0:8080", "--allow-unauthenticated"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b.Code = 1
			if !slices.Contains(b.Arguments, "--kafka-brokers") {
				b.Arguments = append(b.Arguments, "--kafka-brokers", broker)
			}
			testkit.Refused(t, b)
		})
	}
}
