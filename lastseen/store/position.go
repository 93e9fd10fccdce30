package store

import "github.com/stillhere/stillhere/schemas"

// Unknown is the next offset of a partition that has none stored.
const Unknown int64 = -1

// Position is how far a partition has been written.
type Position struct {
	// Next is the next offset to write, or Unknown.
	Next int64
	// Topic is the topic that TopicNext is an offset of. It is unknown if only programs without
	// topic ids have written.
	Topic schemas.TopicID
	// TopicNext is the Next that was stored together with Topic. If it is not Next, a program
	// without topic ids has moved Next alone since, perhaps in another topic.
	TopicNext int64
	// Latest is the latest time of a record of Topic before TopicNext, LogEpoch the greatest log epoch of a
	// version there; 0 = not known.
	Latest   schemas.Millis
	LogEpoch int64
}

// Of is the next offset to write of a topic. It ignores offsets that only programs without topic
// ids have stored: writing again does no harm. If one of the two topics is unknown, they count as
// the same; if they differ, it is Unknown.
func (p Position) Of(topic schemas.TopicID) int64 {
	switch {
	case topic.Differs(p.Topic):
		return Unknown
	case topic.Known() && p.Topic.Known():
		return min(p.Next, p.TopicNext)
	}
	return p.Next
}
