package store

import "github.com/stillhere/stillhere/schemas"

// Unknown stands for a partition of which no next offset is kept.
const Unknown int64 = -1

// Place is how far a partition has been written.
type Place struct {
	// Next is the next offset to be written; Unknown when none is kept.
	Next int64
	// Topic is the topic of which TopicNext was the next offset. It is not known of
	// what only programs have written that know no topic ids.
	Topic schemas.TopicID
	// TopicNext is the Next that was kept together with Topic. When it is not Next,
	// such a program has moved Next alone since, and who knows in which topic.
	TopicNext int64
}

// Of is the next offset to be written of a topic. What only a program without topic
// ids says it has written does not count: to write that again does no harm. Where
// one of the two topics is not known, they are taken for the same; where they
// differ it is Unknown.
func (p Place) Of(topic schemas.TopicID) int64 {
	switch {
	case topic.Differs(p.Topic):
		return Unknown
	case topic.Known() && p.Topic.Known():
		return min(p.Next, p.TopicNext)
	}
	return p.Next
}
