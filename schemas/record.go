package schemas

// Record is a record that was read from a topic. Key, Value and Headers are valid until the
// call that passes it returns; a caller that needs them longer copies them.
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

// Outgoing is a record to write. A nil Value is a tombstone.
type Outgoing struct {
	Topic     Topic
	Partition int32
	Key       []byte
	Value     []byte
	Headers   []Header
	// Time is the record's timestamp; 0 stands for the moment at which it is written.
	Time Millis
}
