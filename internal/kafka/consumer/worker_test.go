package consumer

import (
	"testing"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

func TestRecordsOfAnotherTopicThanThatOfTheOffsetAreNotHandedOn(t *testing.T) {
	t.Parallel()
	f := &worker[string]{begin: make(chan stream.Assignment, 1)}
	f.beginAt(stream.Assignment{TopicID: schemas.TopicID{1}})
	for topic, want := range map[schemas.TopicID]bool{{1}: true, {2}: false, {}: true} {
		if f.matchesTopic(topic) != want {
			t.Errorf("topic %s: %t", topic, !want)
		}
	}
}
