package schemas

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestATopicIDIsWrittenAsKafkaWritesIt(t *testing.T) {
	t.Parallel()
	id := TopicID{0: 0xfb, 1: 0xff, 15: 7}
	const text = "-_8AAAAAAAAAAAAAAAAABw" // URL-safe, without padding
	if id.String() != text {
		t.Errorf("%v is written %s, want %s", [16]byte(id), id, text)
	}
	if read, err := ParseTopicID(text); err != nil || read != id {
		t.Errorf("read %v (%v)", read, err)
	}
	var said bytes.Buffer
	slog.New(slog.NewJSONHandler(&said, nil)).Info("a topic", "topic", id)
	if !strings.Contains(said.String(), `"topic":"`+text+`"`) {
		t.Errorf("logged as %s", said.String())
	}
	for _, bad := range []string{"", "AAAA", text + "==", "+/8AAAAAAAAAAAAAAAAABw"} {
		if _, err := ParseTopicID(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestTopicsDifferOnlyIfBothAreKnown(t *testing.T) {
	t.Parallel()
	a, b, unknown := TopicID{1}, TopicID{2}, TopicID{}
	for _, c := range []struct {
		one, other TopicID
		want       bool
	}{{a, b, true}, {b, a, true}, {a, a, false}, {a, unknown, false}, {unknown, b, false}, {unknown, unknown, false}} {
		if c.one.Differs(c.other) != c.want {
			t.Errorf("%s and %s: must be %t", c.one, c.other, c.want)
		}
	}
}
