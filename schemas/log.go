package schemas

// Record is one record of a topic as the Kafka loop hands it to a room. Key,
// Value and headers are valid until the call returns; whoever keeps them copies.
type Record struct {
	Partition int32
	Offset    int64
	Time      Millis // the broker's append time on heartbeats
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Header is a record header.
type Header struct {
	Key   string
	Value []byte
}

// Header returns the value of the first header of that name, nil if none.
func (r *Record) Header(name string) []byte {
	for _, h := range r.Headers {
		if h.Key == name {
			return h.Value
		}
	}
	return nil
}

// Outgoing is a record to be written. A nil Value is a tombstone.
type Outgoing struct {
	Topic     Topic
	Partition int32
	Key       []byte
	Value     []byte
	Headers   []Header
	// Time is the record's timestamp where the producer gives it; 0: the moment at which it
	// is written.
	Time Millis
}

// Outbox collects what a room wants written while it handles a record. The loop
// that handed it over owns it again when the call returns.
type Outbox struct {
	// Records are committed in one transaction with the input's offset.
	Records []Outgoing
	// Forwards are written and acknowledged before that transaction ends, but
	// outside of it: the heartbeats topic is never written in a transaction.
	Forwards []Outgoing
	// Rejected are input records that can never be understood; they go to the
	// dead letter topic in the same transaction, with their origin.
	Rejected []Rejected
}

// Rejected is a record that goes to the dead-letter topic, and why.
type Rejected struct {
	Record *Record
	// Topic is where it was read; empty for the input of the loop.
	Topic  Topic
	Reason error
}

// Batch is a run of consecutive records of one partition, decoded, in order.
type Batch[T any] struct {
	Partition int32
	Items     []T
	// Next is the offset after the last record of the run. Offsets have holes
	// (transaction markers, records set aside), so it is not Items' last plus one.
	Next int64
}

// Logged is a message together with its place in its topic.
type Logged[T any] struct {
	Partition int32
	Offset    int64
	Time      Millis
	Message   T
}

// Commit is what a group has committed for one partition, and what the
// partition looks like now.
type Commit struct {
	Partition  int32
	Partitions int32 // how many the topic has
	// Offset is the next to be handled; -1 when nothing was ever committed.
	Offset   int64
	Metadata string
	// LogStart and LogEnd bound the offsets that can be read now.
	LogStart, LogEnd int64
	TopicID          TopicID
}

// Kept is how far a consumer that keeps its own offsets is in one partition.
type Kept struct {
	// Next is the next offset to be read; -1 when none is kept.
	Next int64
	// Topic is the one that it is an offset of.
	Topic TopicID
}
