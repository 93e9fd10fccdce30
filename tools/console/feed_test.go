package console

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stillhere/stillhere/internal/cursor"
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

func give(t *testing.T, hub *feedHub, l loggedChange) {
	t.Helper()
	batch := stream.Batch[loggedChange]{Partition: l.Partition, Items: []loggedChange{l}, Next: l.Offset + 1}
	if err := hub.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
}

func TestTheHubGoesOnWhereItWasAndEndsItsClientsIfItCannot(t *testing.T) {
	t.Parallel()
	hub := hubOf(t, 5, 9)
	c := &feedClient{feedFilter: feedFilter{audience: audience{all: true}}}
	defer hub.add(c)()
	give(t, hub, loggedChange{Partition: 1, Offset: 9}) // of no client
	if _, _, passed, err := c.take(1); !slices.Equal(passed, []int64{5, 10}) || err != nil || !slices.Equal(c.sent, []int64{5, 9}) {
		t.Errorf("the client was at %v and has passed %v, %v", c.sent, passed, err)
	}
	at := stream.Assignment{Partition: 1, Partitions: 2, LogEnd: 90, TopicID: schemas.TopicID{1}}
	if stored, _ := hub.Start(t.Context(), at); stored.Next != 10 {
		t.Errorf("a session that begins again reads from %d", stored.Next)
	}
	at.TopicID = schemas.TopicID{2}
	if stored, _ := hub.Start(t.Context(), at); stored.Next != 90 {
		t.Errorf("another topic is read from %d", stored.Next)
	}
	if _, next := hub.place(); next != nil {
		t.Errorf("the hub is at %v before all partitions have begun", next)
	}
	if _, _, _, err := c.take(1); err == nil {
		t.Error("the client goes on in another topic")
	}
}

func sealer(t testing.TB, key byte, topic byte) *positionSealer {
	t.Helper()
	s, err := sealerOf(&cursor.Key{key}, schemas.TopicID{topic})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAPositionIsOfItsLogAndDeploymentAlone(t *testing.T) {
	t.Parallel()
	want := position{1_795_435_200_000, []int64{0, 1 << 40, 7}}
	text := sealer(t, 1, 1).seal(want)
	got, err := sealer(t, 1, 1).open(text, 3)
	if err != nil || got.at != want.at || !slices.Equal(got.next, want.next) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, c := range map[string]struct {
		by         *positionSealer
		text       string
		partitions int
	}{
		"of another deployment": {sealer(t, 2, 1), text, 3}, "of another log": {sealer(t, 1, 2), text, 3},
		"of fewer partitions": {sealer(t, 1, 1), text, 4}, "of more partitions": {sealer(t, 1, 1), text, 2},
		"cut": {sealer(t, 1, 1), text[:len(text)-4], 3}, "made up": {sealer(t, 1, 1), "x", 3}, "empty": {sealer(t, 1, 1), "", 3},
	} {
		if p, err := c.by.open(c.text, c.partitions); err == nil {
			t.Errorf("a position %s is %+v", name, p)
		}
	}
	if again := sealer(t, 1, 1).seal(want); again == text {
		t.Error("two texts of a position are equal, so that one sees whether others had changes")
	}
}

func FuzzAPositionIsReadWithoutFault(f *testing.F) {
	s := sealer(f, 1, 1)
	f.Add(s.seal(position{1, []int64{2, 3}}), 2)
	f.Add("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 0)
	f.Fuzz(func(t *testing.T, text string, partitions int) {
		if p, err := s.open(text, max(0, min(partitions, 1000))); err == nil && len(p.next) != partitions {
			t.Errorf("%+v of %d partitions", p, partitions)
		}
	})
}

func TestWhatWasMissedComesInOrderWithoutWhatMayNotBeToldAnyMore(t *testing.T) {
	t.Parallel()
	const erased, hide, idle = schemas.Erased, schemas.VisibilityChange, schemas.Idle
	change := func(partition int32, offset int64, at schemas.Millis, user schemas.UserID, cause schemas.Cause) loggedChange {
		visibility := schemas.Everyone
		if cause == hide {
			visibility = schemas.Nobody
		}
		return loggedChange{Partition: partition, Offset: offset, Time: at, Message: &schemas.Transition{User: user, Cause: cause,
			Visibility: visibility, Version: schemas.Version(offset + 1)}}
	}
	logs := [][]loggedChange{
		{change(0, 1, 100, 1, idle), change(0, 2, 300, 1, idle), change(0, 3, 250, 2, idle), change(0, 4, 400, 2, erased), {Offset: 5, Time: 500}},
		{change(1, 1, 200, 3, idle), change(1, 2, 310, 3, hide), change(1, 3, 320, 4, idle)},
	}
	read := func(admin bool, most int) (left, sent string) {
		m := missed{filter: &feedFilter{audience: audience{all: true, admin: admin}}}
		for _, log := range logs {
			m.begin()
			for _, l := range log {
				m.take(l)
			}
		}
		words := func(all []loggedChange) (text string) {
			for _, l := range all {
				text += fmt.Sprintf("%d/%d ", l.Partition, l.Offset)
			}
			return text
		}
		a, b := m.end(most)
		return words(a), words(b)
	}
	if left, sent := read(true, 10); left != "" || sent != "0/1 1/1 0/2 1/2 1/3 0/4 " {
		t.Errorf("an administrator gets %q, %q", left, sent)
	}
	if left, sent := read(false, 10); left != "" || sent != "0/1 0/2 1/2 1/3 0/4 " {
		t.Errorf("others get %q, %q", left, sent)
	}
	if left, sent := read(true, 2); left != "0/1 1/1 0/2 1/2 " || sent != "1/3 0/4 " {
		t.Errorf("of too many they get %q, %q", left, sent)
	}
}
