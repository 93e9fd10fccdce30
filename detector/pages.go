package detector

import "github.com/stillhere/stillhere/schemas"

// pages holds the keys and values of records one after the other, so that a thousand records cost
// few allocations. Written bytes are never changed: the Kafka client needs them until the commit.
type pages struct{ page []byte }

const (
	pageSize  = 64 << 10
	entrySize = 256 // room for one key and value; a longer one moves its page
)

// written is what add appends.
func (p *pages) written(add func([]byte) []byte) []byte {
	if cap(p.page)-len(p.page) < entrySize {
		p.page = make([]byte, 0, pageSize)
	}
	from := len(p.page)
	p.page = add(p.page)
	return p.page[from:len(p.page):len(p.page)]
}

// transition is the record of t.
func (p *pages) transition(partition int32, t *schemas.Transition) schemas.Outgoing {
	key, value := p.written(t.User.AppendKey), p.written(t.Append)
	return schemas.Outgoing{Topic: schemas.Transitions, Partition: partition, Key: key, Value: value}
}

// status is the record of a user's status, or a tombstone.
func (p *pages) status(partition int32, s *schemas.Status) schemas.Outgoing {
	o := schemas.Outgoing{Topic: schemas.Statuses, Partition: partition, Key: p.written(s.User.AppendKey)}
	if !s.Tombstone() {
		o.Value = p.written(s.Append)
	}
	return o
}
