package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

const (
	// maxMissed bounds the changes that a client is sent that it has missed, maxBehind the records that are read
	// for them, and maxCatching the clients for whom that is done at a time.
	maxMissed, maxBehind, maxCatching = 5000, 50_000, 2
	// missedChunk is how many of them are sent at once.
	missedChunk = 200
)

// skipped says that changes are missing: those from an instant, nil if it is not known, to another one.
type skipped struct {
	From *schemas.Millis `json:"from"`
	To   schemas.Millis  `json:"to"`
}

// missed gathers what a client has missed, partition by partition, and puts it in order.
type missed struct {
	filter *feedFilter
	items  []missedItem
	void   map[schemas.UserID]schemas.Version // changes before it are not told any more
	newest schemas.Millis                     // of the partition that is read
}

type missedItem struct {
	loggedChange
	order schemas.Millis // the time of its record, or that of a record before it if that is later
}

// begin begins a partition.
func (m *missed) begin() { m.newest = 0 }

// take takes the next change of the partition.
func (m *missed) take(l loggedChange) {
	m.newest = max(m.newest, l.Time)
	if l.Message == nil {
		return
	}
	// What was before an erasure is void, and what was before a hide or show is told to administrators alone.
	if c := l.Message.Cause; c == schemas.Erased || c == schemas.VisibilityChange && !m.filter.admin {
		if m.void == nil {
			m.void = map[schemas.UserID]schemas.Version{}
		}
		m.void[l.Message.User] = max(m.void[l.Message.User], l.Message.Version)
	}
	if m.filter.wants(l.Message) {
		m.items = append(m.items, missedItem{l, m.newest})
	}
}

// end returns the changes by the times of their records, those of a partition as they are there; at most so
// many: the older ones are in left.
func (m *missed) end(most int) (left, changes []loggedChange) {
	all := make([]missedItem, 0, len(m.items))
	for _, item := range m.items {
		if item.Message.Version >= m.void[item.Message.User] {
			all = append(all, item)
		}
	}
	slices.SortStableFunc(all, func(a, b missedItem) int { return cmp.Compare(a.order, b.order) })
	for i, item := range all {
		if i < len(all)-most {
			left = append(left, item.loggedChange)
		} else {
			changes = append(changes, item.loggedChange)
		}
	}
	return left, changes
}

// catchUp sends what the client has missed since the position that it names, up to where it began to be given
// changes, or says that it cannot.
func (s *Server) catchUp(ctx context.Context, c *feedClient, to *sender) error {
	now := schemas.MillisOf(time.Now())
	since, err := position{}, errNoPosition
	if c.sealer != nil {
		since, err = c.sealer.open(c.since, len(c.sent))
	}
	if err != nil {
		return s.sendSkipped(c, to, skipped{To: now})
	}
	left, changes, err := s.missedSince(ctx, c, since)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		s.Log.InfoContext(ctx, "the feed of the console cannot send what a client has missed, and tells it so", "error", err)
		return s.sendSkipped(c, to, skipped{From: &since.at, To: now})
	}
	begin := c.sent
	c.sent = since.next
	for _, l := range left {
		c.sent[l.Partition] = l.Offset + 1
	}
	if len(left) > 0 {
		if err := s.sendSkipped(c, to, skipped{From: &since.at, To: changes[0].Time}); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(changes, missedChunk) {
		text, err := s.changesText(c, some)
		if err == nil {
			err = to.write(text)
		}
		if err != nil {
			return err
		}
	}
	c.sent = begin
	return to.write(c.event("position", []byte("{}")))
}

func (s *Server) sendSkipped(c *feedClient, to *sender, what skipped) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return to.write(c.event("skipped", text))
}

// errTooFar says that too much was published since.
var errTooFar = errors.New("more was published since than is read again")

// missedSince reads the changes from a position to where the client began.
func (s *Server) missedSince(ctx context.Context, c *feedClient, since position) (left, changes []loggedChange, err error) {
	records := int64(0)
	for p, begin := range c.sent {
		if since.next[p] > begin {
			return nil, nil, errNoPosition // the log was truncated
		}
		records += begin - since.next[p]
	}
	if records > maxBehind {
		return nil, nil, errTooFar
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	select {
	case s.feed.catching <- struct{}{}:
		defer func() { <-s.feed.catching }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	m := missed{filter: &c.feedFilter}
	for p, begin := range c.sent {
		if since.next[p] == begin {
			continue
		}
		m.begin()
		if err := s.reader.ReadComplete(ctx, schemas.Transitions, int32(p), since.next[p], begin, func(r *schemas.Record) error {
			m.take(s.changeOf(r))
			return nil
		}); err != nil {
			return nil, nil, err
		}
	}
	left, changes = m.end(maxMissed)
	return left, changes, nil
}
