//go:build synctests

package stream

import (
	"bytes"
	"hash/crc32"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/stillhere/stillhere/schemas"
)

// predecessor is a client that has taken the transactional id of member a.
func (w *world) predecessor() (client *kgo.Client, id int64, epoch int16) {
	w.Helper()
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.Produce), 11) // the last one that does not join the transaction by itself
	client, err := newClient(w.cfg.withDefaults(), w.log, kgo.TransactionalID(w.cfg.GroupName("detector")+".a"), kgo.MaxVersions(versions))
	if err != nil {
		w.Fatal(err)
	}
	if id, epoch, err = client.ProducerID(w.Context()); err != nil {
		w.Fatal(err)
	}
	return client, id, epoch
}

// writeHanging writes a record of a transaction that the coordinator does not know of.
func (w *world) writeHanging(client *kgo.Client, topic schemas.Topic, id int64, epoch int16) error {
	record := kmsg.Record{Key: []byte("hangs"), Value: []byte("must never be seen")}
	record.Length = int32(len(record.AppendTo(nil)) - 1) // what follows the length, which takes one byte
	now := time.Now().UnixMilli()
	batch := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, Attributes: 0x10, FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: id, ProducerEpoch: epoch, NumRecords: 1, Records: record.AppendTo(nil)}
	const beforeLength, beforeCRC, afterCRC = 12, 17, 21
	batch.Length = int32(len(batch.AppendTo(nil)) - beforeLength)
	batch.CRC = int32(crc32.Checksum(batch.AppendTo(nil)[afterCRC:], crc32.MakeTable(crc32.Castagnoli)))
	transaction := w.cfg.GroupName("detector") + ".a"
	request := kmsg.NewPtrProduceRequest()
	request.TransactionID, request.Acks, request.TimeoutMillis = &transaction, -1, 5000
	t, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	t.Topic, p.Records = w.name(topic), batch.AppendTo(nil)
	t.Partitions = append(t.Partitions, p)
	request.Topics = append(request.Topics, t)
	response, err := request.RequestWith(w.Context(), client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(response.Topics[0].Partitions[0].ErrorCode)
}

// letHang makes brokers since 4.0 take writes that belong to no transaction.
func (w *world) letHang(t *testing.T) {
	admin := w.admin()
	defer admin.Close()
	const setting = "transaction.partition.verification.enable"
	no := "false"
	set := func(change kadm.AlterConfig) {
		admin := w.admin()
		defer admin.Close()
		answers, err := admin.AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{change})
		if err == nil {
			_, err = answers.On("", nil)
		}
		if err != nil {
			t.Errorf("%s: %v", setting, err)
		}
	}
	set(kadm.AlterConfig{Op: kadm.SetConfig, Name: setting, Value: &no})
	w.ends = append(w.ends, func() { set(kadm.AlterConfig{Op: kadm.DeleteConfig, Name: setting}) })
}

func TestATransactionThatKafkaLeftHangingIsAborted(t *testing.T) {
	inKafka(t, 1, func(w *world) {
		stop, transform := w.member("a")
		w.until("ready", 30*time.Second, func() bool { return transform.Ready() == nil && len(transform.Status()) == 1 })
		w.beat(0, "x")
		w.until("copied", 10*time.Second, func() bool { return w.counts()["x"] == 1 })
		if err := stop(); err != nil {
			w.Fatal(err)
		}
		w.letHang(t)
		client, id, epoch := w.predecessor()
		defer client.Close()
		for _, topic := range []schemas.Topic{schemas.Statuses, schemas.Transitions, schemas.DeadLetter} {
			// The setting takes a moment.
			w.until("Kafka takes it", 10*time.Second, func() bool { return w.writeHanging(client, topic, id, epoch) == nil })
		}
		w.beat(0, "x")
		_, transform = w.member("a")
		w.until("ready again", 30*time.Second, func() bool { return transform.Ready() == nil && len(transform.Status()) == 1 })
		w.beat(0, "x")
		w.until("copied", 10*time.Second, func() bool { return w.counts()["x"] == 3 })
		if n := w.metric(func(m *Metrics) *prometheus.CounterVec { return m.hanging }); n != 3 {
			w.Errorf("%d hanging transactions were ended, there were 3", n)
		}
		for _, topic := range []schemas.Topic{schemas.Statuses, schemas.Transitions, schemas.DeadLetter} {
			for _, r := range w.read(topic) {
				if bytes.HasPrefix(r.Key, []byte("hang")) {
					w.Errorf("%s shows what was aborted: %q", topic, r.Value)
				}
			}
		}
	})
}

func TestReadingThatWaitsForATransactionSaysSo(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		var said bytes.Buffer
		reader, err := NewReader(w.cfg, slog.New(slog.NewTextHandler(&said, nil)))
		if err != nil {
			w.Fatal(err)
		}
		defer reader.Close()
		client, _, _ := w.predecessor()
		defer client.Close()
		if err := client.BeginTransaction(); err != nil {
			w.Fatal(err)
		}
		record := &kgo.Record{Topic: w.name(schemas.Transitions), Key: []byte("open")}
		if err := client.ProduceSync(w.Context(), record).FirstErr(); err != nil {
			w.Fatal(err)
		}
		read := make(chan error, 1)
		go func() {
			read <- reader.Read(w.Context(), schemas.Transitions, 0, -1, -1, true, func(*schemas.Record) error { return nil })
		}()
		time.Sleep(29 * time.Second)
		if err := client.EndTransaction(w.Context(), kgo.TryAbort); err != nil {
			w.Fatal(err)
		}
		if err := <-read; err != nil {
			w.Fatal(err)
		}
		if n := bytes.Count(said.Bytes(), []byte("reading waits for a transaction that is still open")); n != 2 {
			w.Errorf("it was said %d times in 30 s:\n%s", n, &said)
		}
		if !bytes.Contains(said.Bytes(), []byte("the transaction has ended, reading goes on")) {
			w.Errorf("its end was not said:\n%s", &said)
		}
	})
}
