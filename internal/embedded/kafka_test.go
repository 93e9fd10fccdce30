package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// brokers gives the addresses of each cluster that the contract is held to.
func brokers(t *testing.T, test func(t *testing.T, addrs []string)) {
	t.Run("stand-in", func(t *testing.T) {
		t.Parallel()
		test(t, start(t, KafkaConfig{}).Addrs())
	})
	t.Run("Apache Kafka", func(t *testing.T) {
		addrs := os.Getenv("STILLHERE_TEST_KAFKA")
		if addrs == "" {
			t.Skip("STILLHERE_TEST_KAFKA names no server (host:port), so only the stand-in is held to the contract")
		}
		test(t, strings.Split(addrs, ","))
	})
}

func start(t *testing.T, cfg KafkaConfig) *Kafka {
	t.Helper()
	k := must.Get(StartKafka(cfg))(t)
	t.Cleanup(k.Close)
	return k
}

func client(t *testing.T, addrs []string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addrs...), kgo.MetadataMinAge(50 * time.Millisecond)}, options...)...)
	must.Do(t, err)
	t.Cleanup(c.Close)
	return c
}

func topic(t *testing.T, addrs []string, name string, config map[string]string) {
	t.Helper()
	settings := map[string]*string{}
	for k, v := range config {
		settings[k] = &v
	}
	response, err := kadm.NewClient(client(t, addrs)).CreateTopic(t.Context(), 1, 1, settings, name)
	must.Do(t, errors.Join(err, response.Err))
}

func consume(t *testing.T, addrs []string, name string, n int) []*kgo.Record {
	t.Helper()
	c := client(t, addrs, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: {0: kgo.NewOffset().AtStart()}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var all []*kgo.Record
	for len(all) < n {
		fetches := c.PollFetches(ctx)
		must.Do(t, fetches.Err())
		all = append(all, fetches.Records()...)
	}
	return all
}

func TestLogAppendTimeIsTheTimeOfArrivalWhateverTheProducerSays(t *testing.T) {
	brokers(t, func(t *testing.T, addrs []string) {
		for name, compression := range map[string]kgo.CompressionCodec{"plain": kgo.NoCompression(), "snappy": kgo.SnappyCompression(), "zstd": kgo.ZstdCompression()} {
			t.Run(name, func(t *testing.T) {
				topicName := fmt.Sprintf("contract-append-%s-%d", name, time.Now().UnixNano())
				topic(t, addrs, topicName, map[string]string{"message.timestamp.type": "LogAppendTime"})
				c := client(t, addrs, kgo.ProducerBatchCompression(compression), kgo.ProducerLinger(20*time.Millisecond))
				const n = 200
				var records []*kgo.Record
				for i := range n {
					records = append(records, &kgo.Record{Topic: topicName, Value: fmt.Append(nil, "record ", i), Timestamp: time.UnixMilli(int64(i) % 3)})
				}
				before := time.Now()
				must.Do(t, c.ProduceSync(t.Context(), records...).FirstErr())
				after := time.Now()
				for i, r := range consume(t, addrs, topicName, n) {
					if string(r.Value) != fmt.Sprint("record ", i) {
						t.Fatalf("record %d is %q", i, r.Value)
					}
					if r.Timestamp.Before(before.Add(-time.Second)) || r.Timestamp.After(after.Add(time.Second)) {
						t.Fatalf("record %d says %s, it was written at %s", i, r.Timestamp, before)
					}
				}
			})
		}
	})
}

func TestCreateTimeIsLeftAlone(t *testing.T) {
	brokers(t, func(t *testing.T, addrs []string) {
		name := fmt.Sprintf("contract-create-%d", time.Now().UnixNano())
		topic(t, addrs, name, nil)
		at := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
		must.Do(t, client(t, addrs).ProduceSync(t.Context(), &kgo.Record{Topic: name, Timestamp: at}).FirstErr())
		if got := consume(t, addrs, name, 1)[0].Timestamp; !got.Equal(at) {
			t.Errorf("the time is %s, sent was %s", got, at)
		}
	})
}

func TestAppendTimeInATransaction(t *testing.T) {
	brokers(t, func(t *testing.T, addrs []string) {
		name := fmt.Sprintf("contract-txn-%d", time.Now().UnixNano())
		topic(t, addrs, name, map[string]string{"message.timestamp.type": "LogAppendTime"})
		c := client(t, addrs, kgo.TransactionalID(name))
		must.Do(t, c.BeginTransaction())
		must.Do(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: name, Timestamp: time.UnixMilli(1)}).FirstErr())
		must.Do(t, c.EndTransaction(t.Context(), kgo.TryCommit))
		if age := time.Since(consume(t, addrs, name, 1)[0].Timestamp); age > time.Second*2 || age < -time.Second {
			t.Errorf("the record is %s old", age)
		}
	})
}

// A batch whose records were buffered for long must not reach into the future.
func TestNothingIsStampedAheadOfTime(t *testing.T) {
	t.Parallel()
	addrs := start(t, KafkaConfig{}).Addrs()
	topic(t, addrs, "ahead", map[string]string{"message.timestamp.type": "LogAppendTime"})
	c := client(t, addrs, kgo.ProducerLinger(50*time.Millisecond))
	var records []*kgo.Record
	for i := range 10 {
		records = append(records, &kgo.Record{Topic: "ahead", Timestamp: time.UnixMilli(int64(i) * 1000)})
	}
	must.Do(t, c.ProduceSync(t.Context(), records...).FirstErr())
	for i, r := range consume(t, addrs, "ahead", 10) {
		if r.Timestamp.After(time.Now()) {
			t.Errorf("record %d is stamped %s ahead", i, time.Until(r.Timestamp))
		}
	}
}

func TestTheDataDirectoryOutlivesTheCluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := must.Get(StartKafka(KafkaConfig{DataDir: dir}))(t)
	topic(t, k.Addrs(), "kept", map[string]string{"message.timestamp.type": "LogAppendTime"})
	must.Do(t, client(t, k.Addrs()).ProduceSync(t.Context(), &kgo.Record{Topic: "kept", Value: []byte("first")}).FirstErr())
	k.Close()
	k = start(t, KafkaConfig{DataDir: dir})
	must.Do(t, client(t, k.Addrs()).ProduceSync(t.Context(), &kgo.Record{Topic: "kept", Value: []byte("second"), Timestamp: time.UnixMilli(1)}).FirstErr())
	got := consume(t, k.Addrs(), "kept", 2)
	if string(got[0].Value) != "first" || string(got[1].Value) != "second" || time.Since(got[1].Timestamp) > time.Minute {
		t.Errorf("read back %q and %q of %s", got[0].Value, got[1].Value, got[1].Timestamp)
	}
}

func TestWhatCannotStartSaysWhyInOneLine(t *testing.T) {
	t.Parallel()
	held := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer held.Close()
	taken := held.Addr().String()
	locked := t.TempDir()
	start(t, KafkaConfig{DataDir: locked})
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	for name, c := range map[string]struct {
		cfg  KafkaConfig
		says string
	}{
		"the port is taken":          {KafkaConfig{Listen: taken}, taken + ": the port is in use"},
		"the directory is locked":    {KafkaConfig{DataDir: locked}, "in use by another process"},
		"the directory is a file":    {KafkaConfig{DataDir: file}, file},
		"no address":                 {KafkaConfig{Listen: "9092"}, "must be host:port"},
		"all addresses":              {KafkaConfig{Listen: "0.0.0.0:9092"}, "name one address"},
		"a port that is not one":     {KafkaConfig{Listen: "localhost:70000"}, "0 to 65535"},
		"an address of someone else": {KafkaConfig{Listen: "192.0.2.1:0"}, "cannot listen on 192.0.2.1:0"},
	} {
		k, err := StartKafka(c.cfg)
		if err == nil {
			k.Close()
			t.Errorf("%s: it started", name)
			continue
		}
		if !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %q does not say %q in one line", name, err, c.says)
		}
	}
	if r, err := StartRedis(RedisConfig{Listen: taken}); err == nil {
		r.Close()
		t.Error("Redis started on a taken port")
	} else if !strings.Contains(err.Error(), "in use") {
		t.Errorf("Redis says %q", err)
	}
}
