package console

import (
	"testing"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// hubOf is a hub that begins at an offset of each partition.
func hubOf(t *testing.T, next ...int64) *feedHub {
	t.Helper()
	hub := &feedHub{}
	for p, end := range next {
		at := stream.Assignment{Partition: int32(p), Partitions: int32(len(next)), LogEnd: end, TopicID: schemas.TopicID{1}}
		if stored, err := hub.Start(t.Context(), at); err != nil || stored.Next != end {
			t.Fatal(stored, err)
		}
	}
	return hub
}

func give(t *testing.T, hub *feedHub, partition int32, next int64, changes ...*schemas.Transition) {
	t.Helper()
	batch := stream.Batch[*schemas.Transition]{Partition: partition, Items: changes, Next: next}
	if err := hub.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
}

func TestTheHubGoesOnWhereItWasAndEndsItsClientsIfItCannot(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, 5, 9)
	c := &feedClient{feedFilter: feedFilter{audience: audience{all: true}}}
	defer hub.add(c)()
	give(t, hub, 1, 11, nil, &schemas.Transition{User: 1}) // the first one is none of the detector
	if changes, dropped, err := c.take(1); len(changes) != 1 || dropped != 0 || err != nil {
		t.Errorf("the client gets %v, %d dropped, %v", changes, dropped, err)
	}
	at := stream.Assignment{Partition: 1, Partitions: 2, LogEnd: 90, TopicID: schemas.TopicID{1}}
	if stored, _ := hub.Start(t.Context(), at); stored.Next != 11 {
		t.Errorf("a session that begins again reads from %d", stored.Next)
	}
	at.TopicID = schemas.TopicID{2}
	if stored, _ := hub.Start(t.Context(), at); stored.Next != 90 {
		t.Errorf("another topic is read from %d", stored.Next)
	}
	if _, _, err := c.take(1); err == nil {
		t.Error("the client goes on in another topic")
	}
}
