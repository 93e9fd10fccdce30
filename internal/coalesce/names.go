package coalesce

import (
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// NamedEvery is after how long the name of a user is written again.
const NamedEvery = 5 * time.Minute

// NamedRow is the name of the user of one row of a batch.
type NamedRow struct {
	Row  int
	Name *schemas.Name
}

// slotName is what the user of a slot is called.
type slotName struct {
	name  *schemas.Name // nil: the user has no name
	known time.Duration // when the name was last written; unnamed: it may not be in the log
}

const unnamed = -NamedEvery

// name notes the name of a slot. afresh says that it has to be written again.
func (q *Queue) name(i int32, name *schemas.Name, afresh bool) {
	for len(q.names) < len(q.slots) {
		q.names = append(q.names, slotName{known: unnamed})
	}
	n := &q.names[i]
	if n.name == nil || *n.name != *name {
		copied := *name // so that callers need not allocate it
		n.name, afresh = &copied, true
	}
	if afresh {
		n.known = unnamed
	}
}

// unname forgets the name of a slot.
func (q *Queue) unname(i int32) {
	if int(i) < len(q.names) {
		q.names[i] = slotName{known: unnamed}
	}
}

// appendName adds the name of a slot to the last row of b, if it is due.
func (q *Queue) appendName(b *Batch, i int32, now time.Duration) {
	if int(i) >= len(q.names) {
		return
	}
	if n := &q.names[i]; n.name != nil && now-n.known >= NamedEvery {
		b.Names = append(b.Names, NamedRow{Row: len(b.Beats) - 1, Name: n.name})
	}
}

// settleNames notes which names are in the log. After a batch that is not, all its users are named
// again.
func (q *Queue) settleNames(now time.Duration, b *Batch, written bool) {
	if written {
		for _, row := range b.Names {
			if i := b.slots[row.Row]; q.names[i].name != nil {
				q.names[i].known = now
			}
		}
		return
	}
	for _, i := range b.slots {
		if int(i) < len(q.names) {
			q.names[i].known = unnamed
		}
	}
}
