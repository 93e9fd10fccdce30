package expand

import (
	"maps"
	"slices"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/schemas"
)

// change is what all delivery records of a transition in one partition share.
type change struct {
	key, encoded []byte
	partition    int32
	chunk        uint32
	names        graph.Names // of namesOf: followers who are not in it get no delivery; nil: users have no names
}

// direct is the change of a user with few followers.
func (d *Dependencies) direct(t *schemas.Transition, names graph.Names) *change {
	return &change{key: schemas.JobKey(t.User, 0), encoded: t.Encode(), partition: schemas.DeliveryPartition(t.User, false, 0, d.Deliveries), names: names}
}

// recipients returns those of followers who get a delivery, in scratch if they have to be copied.
func (d *Dependencies) recipients(followers, scratch []schemas.UserID, names graph.Names) (recipients, _ []schemas.UserID) {
	d.Metrics.Followers.Add(float64(len(followers)))
	switch {
	case !d.Config.Everyone:
		scratch = d.Online.Filter(scratch[:0], followers)
	case names == nil:
		return followers, scratch
	default:
		scratch = append(scratch[:0], followers...)
	}
	if names != nil {
		// Who has come since the names were read is not told, as a moment ago.
		scratch = slices.DeleteFunc(scratch, func(id schemas.UserID) bool { _, ok := names[id]; return !ok })
	}
	return scratch, scratch
}

// deliver appends the delivery records for followers.
func (d *Dependencies) deliver(out []schemas.Outgoing, change *change, followers, scratch []schemas.UserID) (_ []schemas.Outgoing, _ []schemas.UserID) {
	recipients, scratch := d.recipients(followers, scratch, change.names)
	for len(recipients) > 0 {
		n := min(len(recipients), schemas.MaxRecipients)
		out = append(out, d.delivery(change, recipients[:n]))
		recipients = recipients[n:]
	}
	return out, scratch
}

func (d *Dependencies) delivery(change *change, recipients []schemas.UserID) schemas.Outgoing {
	d.Metrics.Deliveries.Inc()
	d.Metrics.Recipients.Add(float64(len(recipients)))
	value := schemas.AppendDelivery(nil, change.encoded, recipients, change.chunk)
	if change.names != nil {
		value = schemas.AppendRecipientNames(value, texts(change.names, recipients))
	}
	return schemas.Outgoing{Topic: schemas.Deliveries, Partition: change.partition, Key: change.key, Value: value}
}

// pieces collects the recipients of a job by the partition of their delivery records.
type pieces struct {
	changes []change
	waiting [][]schemas.UserID // ascending, fewer than schemas.MaxRecipients
}

// pieces makes one piece for each partition that is for users with many followers.
func (d *Dependencies) pieces(t *schemas.Transition) *pieces {
	n := max(1, d.Deliveries/2)
	p := &pieces{make([]change, n), make([][]schemas.UserID, n)}
	encoded := t.Encode()
	for i := range p.changes {
		chunk := uint32(i)
		p.changes[i] = change{key: schemas.JobKey(t.User, chunk), encoded: encoded, chunk: chunk,
			partition: schemas.DeliveryPartition(t.User, true, chunk, d.Deliveries)}
	}
	return p
}

// named notes the names of followers whom add gets next.
func (p *pieces) named(names graph.Names) {
	if names == nil {
		return
	}
	if p.changes[0].names == nil {
		all := graph.Names{}
		for i := range p.changes {
			p.changes[i].names = all
		}
	}
	maps.Copy(p.changes[0].names, names)
}

// add puts followers, which ascend, into their pieces and appends the delivery records that are
// full. A follower's id alone chooses its piece: all deliveries about one user to one follower are
// in one partition, however jobs cut the followers.
func (p *pieces) add(d *Dependencies, out []schemas.Outgoing, followers, scratch []schemas.UserID) (_ []schemas.Outgoing, _ []schemas.UserID) {
	recipients, scratch := d.recipients(followers, scratch, p.changes[0].names)
	for _, id := range recipients {
		i := schemas.PartitionOf(id, int32(len(p.changes)))
		p.waiting[i] = append(p.waiting[i], id)
		if len(p.waiting[i]) == schemas.MaxRecipients {
			out = append(out, d.delivery(&p.changes[i], p.waiting[i]))
			p.waiting[i] = p.waiting[i][:0]
		}
	}
	return out, scratch
}

// flush appends the delivery records that are not full.
func (p *pieces) flush(d *Dependencies, out []schemas.Outgoing) []schemas.Outgoing {
	for i, waiting := range p.waiting {
		if len(waiting) > 0 {
			out = append(out, d.delivery(&p.changes[i], waiting))
		}
	}
	return out
}

func (d *Dependencies) job(j *schemas.FanoutJob) schemas.Outgoing {
	return schemas.Outgoing{Topic: schemas.Fanout, Partition: schemas.JobPartition(j.Transition.User, j.Chunk, d.Jobs),
		Key: schemas.JobKey(j.Transition.User, j.Chunk), Value: j.Encode()}
}
