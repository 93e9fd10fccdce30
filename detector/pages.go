package detector

import "github.com/stillhere/stillhere/schemas"

// pages holds the keys and values of records one after the other, so that a thousand records cost
// few allocations. Written bytes are never changed: the Kafka client needs them until the commit.
type pages struct{ page []byte }

const (
	pageSize  = 64 << 10
	entrySize = 256 // room for one key and value; a longer one moves its page
)

func (p *pages) begin() []byte {
	if cap(p.page)-len(p.page) < entrySize {
		p.page = make([]byte, 0, pageSize)
	}
	return p.page
}

// cut returns what was appended since from.
func (p *pages) cut(from int) []byte { return p.page[from:len(p.page):len(p.page)] }

func (p *pages) key(user schemas.UserID) []byte {
	from := len(p.begin())
	p.page = user.AppendKey(p.page)
	return p.cut(from)
}

// transition is the record of t.
func (p *pages) transition(partition int32, t *schemas.Transition) schemas.Outgoing {
	o := schemas.Outgoing{Topic: schemas.Transitions, Partition: partition, Key: p.key(t.User)}
	from := len(p.begin())
	p.page = t.Append(p.page)
	o.Value = p.cut(from)
	return o
}

// status is the record of a user's status, or a tombstone.
func (p *pages) status(partition int32, s *schemas.Status) schemas.Outgoing {
	o := schemas.Outgoing{Topic: schemas.Statuses, Partition: partition, Key: p.key(s.User)}
	if !s.Tombstone() {
		from := len(p.begin())
		p.page = s.Append(p.page)
		o.Value = p.cut(from)
	}
	return o
}
