package store

import "github.com/stillhere/stillhere/schemas"

// Unknown is the next offset of a partition that has none stored.
const Unknown int64 = -1

// Position is how far a partition has been written.
type Position struct {
	// Next is the next offset to write, or Unknown.
	Next int64
	// Topic is the topic that Next is an offset of; unknown before the first write, and after an operator has set Next.
	Topic schemas.TopicID
	// Latest is the latest time of a record of Topic before Next, LogEpoch the greatest log epoch of a version there;
	// 0 = not known.
	Latest   schemas.Millis
	LogEpoch int64
}

// Of is the next offset to write of a topic: Unknown if the stored one is another topic.
func (p Position) Of(topic schemas.TopicID) int64 {
	if topic.Differs(p.Topic) {
		return Unknown
	}
	return p.Next
}
