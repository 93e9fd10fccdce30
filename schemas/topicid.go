package schemas

import (
	"encoding/base64"
	"fmt"
)

// TopicID is the id that Kafka gives a new topic; a topic that is deleted and recreated under its
// old name has another one. The zero TopicID is unknown: brokers before 2.8 have none.
type TopicID [16]byte

// Known reports whether id names a topic.
func (id TopicID) Known() bool { return id != TopicID{} }

// Differs reports whether both are known and name different topics.
func (id TopicID) Differs(other TopicID) bool { return id != other && id.Known() && other.Known() }

// String is the form that Kafka's tools print (kafka-topics --describe).
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// MarshalText is String, so that logs in every format show the same.
func (id TopicID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// ParseTopicID reads the result of String.
func ParseTopicID(text string) (TopicID, error) {
	var id TopicID
	read, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(read) != len(id) {
		return id, fmt.Errorf("topic id: %q must be 22 characters of URL-safe base64", text)
	}
	copy(id[:], read)
	return id, nil
}
