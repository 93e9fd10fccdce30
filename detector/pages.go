package detector

import "github.com/stillhere/stillhere/schemas"

// pages is where the keys and values of records are written, one after the other,
// so that a thousand records cost a few allocations. What was written stays as it
// is: the Kafka client keeps it until it is committed, then the page goes.
type pages struct{ page []byte }

const (
	pageSize  = 64 << 10
	entrySize = 256 // room for one key and value; a longer one moves its page
)

// begin makes room for a record.
func (p *pages) begin() []byte {
	if cap(p.page)-len(p.page) < entrySize {
		p.page = make([]byte, 0, pageSize)
	}
	return p.page
}

// cut is what was appended to the page since from.
func (p *pages) cut(from int) []byte { return p.page[from:len(p.page):len(p.page)] }

// key writes the user's key.
func (p *pages) key(user schemas.UserID) []byte {
	from := len(p.begin())
	p.page = user.AppendKey(p.page)
	return p.cut(from)
}

// transition is the record of t. It is never older than what it tells of, also where the
// brokers' clock, which t goes by, is ahead of now: consumers reject what lies in the future
// of its record.
func (p *pages) transition(partition int32, t *schemas.Transition, now schemas.Millis) schemas.Outgoing {
	o := schemas.Outgoing{Topic: schemas.Transitions, Partition: partition, Key: p.key(t.User)}
	if latest := max(t.At, t.LastSeen, t.LastActive); latest > now {
		o.Time = latest
	}
	from := len(p.begin())
	p.page = t.Append(p.page)
	o.Value = p.cut(from)
	return o
}

// status is what the status topic keeps of a user, or a tombstone.
func (p *pages) status(partition int32, s *schemas.Status) schemas.Outgoing {
	o := schemas.Outgoing{Topic: schemas.Statuses, Partition: partition, Key: p.key(s.User)}
	if !s.Tombstone() {
		from := len(p.begin())
		p.page = s.Append(p.page)
		o.Value = p.cut(from)
	}
	return o
}
