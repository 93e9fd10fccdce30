package storetest

import (
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Three topics of one name, one made after the other.
var first, second, third = schemas.TopicID{1, 15: 255}, schemas.TopicID{2}, schemas.TopicID{3}

func wantPosition(t *testing.T, s Store, want store.Position) {
	t.Helper()
	at := must.Get(s.Position(t.Context(), 0))(t)
	if at != want {
		t.Fatalf("the position is %+v, want %+v", at, want)
	}
}

func topicIsKept(t *testing.T, s Store) {
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 10, Topic: first}))
	wantPosition(t, s, store.Position{Next: 10, Topic: first})
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: 10, ExpectedTopic: first, Next: 20, Topic: first, Latest: 5, LogEpoch: 3}))
	at := store.Position{Next: 20, Topic: first, Latest: 5, LogEpoch: 3}
	wantPosition(t, s, at)
	for topic, want := range map[schemas.TopicID]int64{first: 20, second: store.Unknown, {}: 20} {
		if got := at.Of(topic); got != want {
			t.Errorf("of topic %s it is at %d, want %d", topic, got, want)
		}
	}
}

func topicIsFilledIn(t *testing.T, s Store) {
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 10}))
	wantPosition(t, s, store.Position{Next: 10})
	wantFenced(t, s.Append(t.Context(), store.Batch{Expected: 10, ExpectedTopic: first, Next: 20, Topic: first}))
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: 10, Next: 20, Topic: first}))
	wantPosition(t, s, store.Position{Next: 20, Topic: first})
}

// topicRecreated has the new log's writer come to the very offset at which a zombie of
// the old log expects the store.
func topicRecreated(t *testing.T, s Store) {
	log := RandomLog(1, 4, 60)
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 20, Topic: first, Changes: log[:20]}))
	again := store.Batch{Expected: 20, ExpectedTopic: first, Next: 0, Topic: second}
	must.Do(t, s.Append(t.Context(), again))
	wantPosition(t, s, store.Position{Next: 0, Topic: second})
	wantFenced(t, s.Append(t.Context(), again))
	zombie := store.Batch{Expected: 20, ExpectedTopic: first, Next: 30, Topic: first, Changes: log[50:]}
	wantFenced(t, s.Append(t.Context(), zombie))
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: 0, ExpectedTopic: second, Next: 20, Topic: second, Changes: log[20:40]}))
	wantFenced(t, s.Append(t.Context(), zombie))
	zombie.ExpectedTopic = third
	wantFenced(t, s.Append(t.Context(), zombie))
	zombie.ExpectedTopic = schemas.TopicID{}
	wantFenced(t, s.Append(t.Context(), zombie))
	wantPosition(t, s, store.Position{Next: 20, Topic: second})
	wantUsers(t, s, log[:40])
	wantLog(t, s, log[:40])
}

// offsetsOfTwoTopics has one offset stand for different changes in two topics, and one
// change stand at different offsets: neither is what makes a row of the log.
func offsetsOfTwoTopics(t *testing.T, s Store) {
	log := RandomLog(2, 4, 30)
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 20, Topic: first, Changes: log[:20]}))
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: 20, ExpectedTopic: first, Next: 0, Topic: second}))
	// As the detector publishes them after the heartbeats were recreated as well: the
	// same offsets in a new log epoch.
	later := make([]*schemas.Transition, 10)
	for i, change := range log[20:] {
		copied := *change
		copied.Version = schemas.NewVersion(2, int64(i), 0)
		later[i] = &copied
	}
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: 0, ExpectedTopic: second, Next: 10, Topic: second, Changes: later}))
	// And the new log read again from its start, in other cuts.
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: 10, ExpectedTopic: second, Next: 7, Topic: second, Changes: later[:7]}))
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: 7, ExpectedTopic: second, Next: 10, Topic: second, Changes: later[7:]}))
	all := append(append([]*schemas.Transition{}, log[:20]...), later...)
	wantUsers(t, s, all)
	wantLog(t, s, all)
}
