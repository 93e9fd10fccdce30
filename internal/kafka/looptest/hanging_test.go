//go:build synctests

package looptest

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// predecessor is a client that has taken the transactional id of member a.
func (w *world) predecessor() (client *kgo.Client, id int64, epoch int16) {
	w.Helper()
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.Produce), 11) // the last one that does not join the transaction by itself
	client, err := kafka.NewClient(w.cfg.WithDefaults(), w.log, kgo.TransactionalID(w.cfg.GroupName("detector")+".a"), kgo.MaxVersions(versions))
	must.Do(w, err)
	id, epoch, err = client.ProducerID(w.Context())
	must.Do(w, err)
	return client, id, epoch
}

// writeHanging writes a record of a transaction that the coordinator does not know of.
func (w *world) writeHanging(client *kgo.Client, topic schemas.Topic, id int64, epoch int16) error {
	record := kmsg.Record{Key: []byte("hangs"), Value: binary.BigEndian.AppendUint64(nil, 1)}
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
func letHang(t *testing.T) {
	addresses := os.Getenv("STILLHERE_TEST_KAFKA")
	if addresses == "" {
		t.Skip("STILLHERE_TEST_KAFKA names no server (host:port, see deploy/local/up); the stand-in lets no transaction hang")
	}
	admin := newWorld(t, nil, kafka.Config{Brokers: strings.Split(addresses, ",")}).admin()
	set := func(op kadm.IncrementalOp, value *string) {
		change := kadm.AlterConfig{Op: op, Name: "transaction.partition.verification.enable", Value: value}
		answers, err := admin.AlterBrokerConfigs(context.Background(), []kadm.AlterConfig{change})
		if err == nil {
			_, err = answers.On("", nil)
		}
		if err != nil {
			t.Errorf("changing %s: %v", change.Name, err)
		}
	}
	no := "false"
	set(kadm.SetConfig, &no)
	t.Cleanup(func() { set(kadm.DeleteConfig, nil); admin.Close() })
}

// commitOffsets commits the group's offsets as they are, in a transaction of that
// epoch which the coordinator believes to be all there is.
func (w *world) commitOffsets(client *kgo.Client, id int64, epoch int16) {
	w.Helper()
	instance, group := w.cfg.GroupName("detector")+".a", w.cfg.GroupName("detector")
	offset, checkpoint := w.commits(0)
	succeeds := func(err error, code int16) {
		must.Do(w, err, kerr.ErrorForCode(code))
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = instance, id, epoch, group
	added, err := add.RequestWith(w.Context(), client)
	succeeds(err, added.ErrorCode)
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch, commit.Group = instance, id, epoch, group
	topic, part := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
	metadata := schemas.Transaction{Producer: id, Epoch: epoch}.On(checkpoint.Encode())
	topic.Topic, part.Offset, part.Metadata = w.name(schemas.Heartbeats), offset, &metadata
	topic.Partitions = append(topic.Partitions, part)
	commit.Topics = append(commit.Topics, topic)
	committed, err := commit.RequestWith(w.Context(), client)
	succeeds(err, committed.Topics[0].Partitions[0].ErrorCode)
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = instance, id, epoch, true
	ended, err := end.RequestWith(w.Context(), client)
	succeeds(err, ended.ErrorCode)
}

func TestReadersSeeOfATransactionThatKafkaLeftHangingWhatItsCoordinatorHadCommitted(t *testing.T) {
	letHang(t)
	for name, c := range map[string]struct{ committed, takenOver bool }{
		"aborted": {}, "committed": {committed: true}, "committed, and taken over since": {committed: true, takenOver: true},
	} {
		t.Run(name, func(t *testing.T) {
			inKafka(t, 1, func(w *world) {
				committed := c.committed
				w.again = committed
				topics := []schemas.Topic{schemas.Transitions, schemas.DeadLetter, schemas.Statuses}
				if c.takenOver {
					topics = topics[:2] // whoever restores waits for the states
				}
				stop, _ := w.joined("a", 1)
				w.beat(0, "x")
				w.until("copied", 10*time.Second, func() bool { return w.counts()["x"] == 1 })
				must.Do(w, stop())
				client, id, epoch := w.predecessor()
				defer client.Close()
				for _, topic := range topics {
					// The setting takes a moment.
					w.until("Kafka takes it", 10*time.Second, func() bool { return w.writeHanging(client, topic, id, epoch) == nil })
				}
				if committed {
					w.commitOffsets(client, id, epoch)
				}
				w.beat(0, "x")
				if c.takenOver {
					stop, _ := w.joined("b", 1)
					w.until("it has committed", 10*time.Second, func() bool {
						all, err := w.committed()
						named, ok := schemas.TransactionOn(all[0].Metadata)
						return err == nil && ok && named.Producer != id
					})
					must.Do(w, stop())
				}
				w.joined("a", 1)
				w.beat(0, "x")
				w.until("copied", 10*time.Second, func() bool { return w.counts()["x"] == 3 })
				if n := w.metric("hanging_transactions_total"); n != len(topics) {
					w.Errorf("%d hanging transactions were ended, there were %d", n, len(topics))
				}
				for _, topic := range topics {
					shown := slices.ContainsFunc(w.read(topic), func(r schemas.Record) bool { return string(r.Key) == "hangs" })
					if shown != committed {
						w.Errorf("%s shows it: %v", topic, shown)
					}
				}
			})
		})
	}
}

func TestATransactionThatIsLeftHangingWhileASessionRunsIsEndedByTheNext(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		_, transform := w.joined("a", 1)
		w.beat(0, "x")
		w.until("copied", 10*time.Second, func() bool { return w.counts()["x"] == 1 })
		text := must.Get(w.committed())(w)[0].Metadata
		ours, ok := schemas.TransactionOn(text)
		if !ok {
			w.Fatalf("the offset names no transaction: %q", text)
		}
		// The stand-in lets nothing hang, so it has to say so.
		w.again = true
		var says atomic.Bool
		says.Store(true)
		w.answers(kmsg.DescribeProducers, func(request kmsg.Request) kmsg.Response {
			if !says.Load() {
				return nil
			}
			response := request.ResponseKind().(*kmsg.DescribeProducersResponse)
			topic, part, producer := kmsg.NewDescribeProducersResponseTopic(), kmsg.NewDescribeProducersResponseTopicPartition(), kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
			producer.ProducerID, producer.ProducerEpoch, producer.CurrentTxnStartOffset = ours.Producer, int32(ours.Epoch)+1, 0
			topic.Topic = w.name(schemas.Transitions)
			part.ActiveProducers = append(part.ActiveProducers, producer)
			topic.Partitions = append(topic.Partitions, part)
			response.Topics = append(response.Topics, topic)
			return response
		})
		ended := func() int { return w.metric("hanging_transactions_total") }
		w.until("found and ended", 3*time.Minute, func() bool { return ended() > 0 })
		says.Store(false)
		w.has("ready again", transform, 1)
		w.beat(0, "x")
		w.until("copied", 10*time.Second, func() bool { return w.counts()["x"] == 2 })
	})
}

func TestReadingThatWaitsForATransactionSaysSo(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		var said bytes.Buffer
		reader := must.Get(kafka.NewReader(w.cfg, slog.New(slog.NewTextHandler(&said, nil))))(w)
		defer reader.Close()
		client, _, _ := w.predecessor()
		defer client.Close()
		must.Do(w, client.BeginTransaction())
		record := &kgo.Record{Topic: w.name(schemas.Transitions), Key: []byte("open")}
		must.Do(w, client.ProduceSync(w.Context(), record).FirstErr())
		read := make(chan error, 1)
		go func() {
			read <- reader.Read(w.Context(), schemas.Transitions, 0, -1, -1, true, func(*schemas.Record) error { return nil })
		}()
		time.Sleep(29 * time.Second)
		must.Do(w, client.EndTransaction(w.Context(), kgo.TryAbort))
		must.Do(w, <-read)
		if n := bytes.Count(said.Bytes(), []byte("reading waits for an open transaction")); n != 2 {
			w.Errorf("it was said %d times in 30 s:\n%s", n, &said)
		}
		if !bytes.Contains(said.Bytes(), []byte("the open transaction has ended; reading continues")) {
			w.Errorf("its end was not said:\n%s", &said)
		}
	})
}
