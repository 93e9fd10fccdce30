package detector

import (
	"strconv"

	"github.com/stillhere/stillhere/schemas"
)

// pages holds the keys and values of records one after the other, so that a thousand records cost
// few allocations. Written bytes are never changed: the Kafka client needs them until the commit.
type pages struct {
	page    []byte
	headers []schemas.Header
}

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
	switch from := len(p.begin()); {
	case !s.Tombstone():
		p.page = s.Append(p.page)
		o.Value = p.cut(from)
	case s.PublishedAt != 0:
		p.page = strconv.AppendInt(p.page, int64(s.PublishedAt), 10)
		o.Headers = p.header(schemas.LeftHeader, p.cut(from))
	}
	return o
}

func (p *pages) header(name string, value []byte) []schemas.Header {
	if len(p.headers) == cap(p.headers) {
		p.headers = make([]schemas.Header, 0, 256)
	}
	n := len(p.headers)
	p.headers = append(p.headers, schemas.Header{Key: name, Value: value})
	return p.headers[n : n+1 : n+1]
}
