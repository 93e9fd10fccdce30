package embedded

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestACommitWithMoreThan4096BytesOfMetadataIsRefused(t *testing.T) {
	brokers(t, func(t *testing.T, addrs []string) {
		name := fmt.Sprintf("contract-metadata-%d", time.Now().UnixNano())
		topic(t, addrs, name, nil)
		plain := func(metadata string) error {
			var at kadm.Offsets
			at.Add(kadm.Offset{Topic: name, At: 1, LeaderEpoch: -1, Metadata: metadata})
			answers, err := kadm.NewClient(client(t, addrs)).CommitOffsets(t.Context(), name, at)
			return errors.Join(err, answers.Error())
		}
		transactional := func(metadata string) error {
			session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(addrs...), kgo.TransactionalID(name), kgo.ConsumerGroup(name+"-txn"),
				kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
			must.Do(t, err)
			defer session.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			must.Do(t, client(t, addrs).ProduceSync(ctx, &kgo.Record{Topic: name}).FirstErr())
			must.Do(t, session.PollFetches(ctx).Err())
			must.Do(t, session.Begin())
			_, err = session.End(kgo.PreTxnCommitFnContext(ctx, func(r *kmsg.TxnOffsetCommitRequest) error {
				for i := range r.Topics {
					for j := range r.Topics[i].Partitions {
						r.Topics[i].Partitions[j].Metadata = &metadata
					}
				}
				return nil
			}), kgo.TryCommit)
			return err
		}
		// The broker knows the topic once it takes a record for it.
		must.Do(t, client(t, addrs).ProduceSync(t.Context(), &kgo.Record{Topic: name}).FirstErr())
		for kind, commit := range map[string]func(string) error{"plain": plain, "in a transaction": transactional} {
			if err := commit(strings.Repeat("x", 4096)); err != nil {
				t.Errorf("%s, 4,096 bytes: %v", kind, err)
			}
			if err := commit(strings.Repeat("x", 4097)); !errors.Is(err, kerr.OffsetMetadataTooLarge) {
				t.Errorf("%s, 4,097 bytes: %v, want %v", kind, err, kerr.OffsetMetadataTooLarge)
			}
		}
	})
}
