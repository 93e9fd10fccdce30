package hanging

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/member"
	"github.com/stillhere/stillhere/schemas"
)

func TestWhatARestartPublishesIsWhatHeartbeatsAfterTheCommittedOffsetCaused(t *testing.T) {
	t.Parallel()
	checkpoint := schemas.Checkpoint{LogEpoch: 2, Bases: []schemas.EpochBase{{LogEpoch: 2, Offset: 1000}}}
	committed := commits{3: {Offset: 1050, Metadata: checkpoint.Encode()}, 5: {Offset: 7}}
	e := &Ender{Loop: &member.Loop{Config: kafka.Config{Prefix: "p."}}}
	transition := func(epoch uint32, offset int64) *kgo.Record {
		change := schemas.Transition{User: 1, From: schemas.Offline, To: schemas.Online, At: 1, Cause: schemas.FirstBeat,
			Visibility: schemas.Everyone, Version: schemas.NewVersion(epoch, offset, 0)}
		return &kgo.Record{Value: change.Encode()}
	}
	status := func(version schemas.Version) *kgo.Record {
		s := schemas.Status{User: 1, State: schemas.Online, Version: version}
		return &kgo.Record{Key: schemas.UserID(1).Key(), Value: s.Encode()}
	}
	letter := func(partition, offset int) *kgo.Record {
		return &kgo.Record{Headers: []kgo.RecordHeader{{Key: kafka.HeaderOriginPartition, Value: fmt.Append(nil, partition)},
			{Key: kafka.HeaderOriginOffset, Value: fmt.Append(nil, offset)}}}
	}
	tombstone := &kgo.Record{Key: schemas.UserID(1).Key()}
	for _, c := range []struct {
		topic schemas.Topic
		of    []*kgo.Record
		want  string
	}{
		{schemas.Transitions, []*kgo.Record{transition(2, 49), transition(2, 50), transition(1, 900), transition(3, 0)}, "[false true false true]"},
		{schemas.Statuses, []*kgo.Record{tombstone, status(schemas.NewVersion(2, 49, 0)), tombstone, status(schemas.NewVersion(2, 49, schemas.MaxOrdinal)), tombstone},
			"[false false false true true]"},
		{schemas.DeadLetter, []*kgo.Record{letter(3, 1049), letter(3, 1050), letter(5, 6), letter(5, 7), letter(4, 7)}, "[false true false true false]"},
		{schemas.Names, []*kgo.Record{transition(2, 50)}, "[false]"},
	} {
		coming := e.coming(kadm.DescribedProducer{Topic: c.topic.Name("p."), Partition: 3}, committed)
		var got []bool
		for _, r := range c.of {
			got = append(got, coming(r))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", c.topic, got, c.want)
		}
	}
}
