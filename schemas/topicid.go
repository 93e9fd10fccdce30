package schemas

import (
	"encoding/base64"
	"fmt"
)

// TopicID is the number that Kafka gives a topic when it is made; a topic that is
// deleted and made anew under its old name has another one. The zero TopicID stands
// for one that is not known, as brokers before 2.8 know none.
type TopicID [16]byte

// Known tells whether it names a topic.
func (id TopicID) Known() bool { return id != TopicID{} }

// Differs tells whether both are known and name different topics.
func (id TopicID) Differs(other TopicID) bool { return id != other && id.Known() && other.Known() }

// String is the form in which Kafka's own tools print it (kafka-topics --describe).
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// MarshalText is String, so that it is the same in logs of every form.
func (id TopicID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// ParseTopicID reads what String gives.
func ParseTopicID(text string) (TopicID, error) {
	var id TopicID
	read, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(read) != len(id) {
		return id, fmt.Errorf("topic id: %q must be 22 characters of URL-safe base64", text)
	}
	copy(id[:], read)
	return id, nil
}
