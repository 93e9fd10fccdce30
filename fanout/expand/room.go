package expand

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/schemas"
)

// Here says who is here and who hides. Safe for concurrent use.
type Here interface {
	// Filter appends to dst those of users who are here.
	Filter(dst, users []schemas.UserID) []schemas.UserID
	// Hides tells whether user hides by a transition after version.
	Hides(user schemas.UserID, version schemas.Version) bool
}

// Graph is what workers need of the graph; see graph.Store.
type Graph interface {
	Page(ctx context.Context, dst []schemas.UserID, user, after, through schemas.UserID, limit int) ([]schemas.UserID, error)
	Ranges(ctx context.Context, user schemas.UserID, size int) ([]schemas.UserID, error)
}

// Followers is what the planner needs of the graph; see graph.Cache.
type Followers interface {
	Of(ctx context.Context, users []schemas.UserID) ([]graph.Followers, error)
}

// Room is what all tasks of a process share.
type Room struct {
	Config    Config
	Followers Followers
	Graph     Graph
	Here      Here
	Newest    *Newest
	Metrics   *Metrics
	// Check is a *schemas.FieldError for a transition, read in a record of a topic, that cannot
	// be of this log; any other error says that it cannot be told now. nil: all can.
	Check func(topic schemas.Topic, r *schemas.Record, t *schemas.Transition) error
	// Jobs and Deliveries are the numbers of partitions of these topics.
	Jobs, Deliveries int32

	pace pacer
	work chan struct{} // a token for each job that is worked on
	once sync.Once
}

// pacer spreads work evenly over time.
type pacer struct {
	mu   sync.Mutex
	free time.Time // when the work let through so far is paid for
}

// burst is how much unused time may be saved up.
const burst = 50 * time.Millisecond

// wait lets n units through at rate per second; it returns how long it waited.
func (p *pacer) wait(ctx context.Context, n int, rate float64) (time.Duration, error) {
	if rate == 0 {
		return 0, ctx.Err()
	}
	p.mu.Lock()
	now := time.Now()
	if earliest := now.Add(-burst); p.free.Before(earliest) {
		p.free = earliest
	}
	p.free = p.free.Add(time.Duration(float64(n) / rate * float64(time.Second)))
	wait := p.free.Sub(now)
	p.mu.Unlock()
	if wait <= 0 {
		return 0, ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return wait, nil
	case <-ctx.Done():
		return wait, ctx.Err()
	}
}

// hides tells whether t must not be told because its user hides by a later transition.
// Where hidden users are shown as offline, that one is offline is what they look like.
func (r *Room) hides(t *schemas.Transition) bool {
	return (!r.Config.HiddenOffline || t.To != schemas.Offline) && r.Here.Hides(t.User, t.Version)
}

// reject sets a record of a topic aside whose transition cannot be of this log, or cannot be read; an
// error says that it cannot be told now.
func (r *Room) reject(topic schemas.Topic, record *schemas.Record, t *schemas.Transition, err error, out *schemas.Outbox) (rejected bool, _ error) {
	if err == nil && r.Check != nil {
		err = r.Check(topic, record, t)
	}
	if bad := new(schemas.FieldError); err != nil && !errors.As(err, &bad) {
		return false, err
	}
	if err != nil {
		out.Rejected = append(out.Rejected, schemas.Rejected{Record: record, Reason: err})
	}
	return err != nil, nil
}

// deliver appends delivery records for those of followers who are to be told.
// here is scratch space.
func (r *Room) deliver(out []schemas.Outgoing, change *change, followers, here []schemas.UserID) ([]schemas.Outgoing, []schemas.UserID) {
	r.Metrics.Followers.Add(float64(len(followers)))
	recipients := followers
	if !r.Config.Everyone {
		here = r.Here.Filter(here[:0], followers)
		recipients = here
	}
	for len(recipients) > 0 {
		n := min(len(recipients), schemas.MaxRecipients)
		out = append(out, r.delivery(change, recipients[:n]))
		recipients = recipients[n:]
	}
	return out, here
}

func (r *Room) delivery(change *change, recipients []schemas.UserID) schemas.Outgoing {
	r.Metrics.Deliveries.Inc()
	r.Metrics.Recipients.Add(float64(len(recipients)))
	return schemas.Outgoing{Topic: schemas.Deliveries, Partition: change.partition, Key: change.key,
		Value: schemas.AppendDelivery(nil, change.encoded, recipients, change.chunk)}
}

// change is what all delivery records of a transition in one partition share.
type change struct {
	key, encoded []byte
	partition    int32
	chunk        uint32
}

// small is of a user with few followers.
func (r *Room) small(t *schemas.Transition) *change {
	return &change{key: schemas.JobKey(t.User, 0), encoded: t.Encode(), partition: schemas.DeliveryPartition(t.User, false, 0, r.Deliveries)}
}

// pieces collects the recipients of a job by the partition that they are told in.
type pieces struct {
	changes []change
	waiting [][]schemas.UserID // ascending, fewer than schemas.MaxRecipients
}

// pieces is of a user with many followers: one for each partition that is for those.
func (r *Room) pieces(t *schemas.Transition) *pieces {
	n := max(1, r.Deliveries/2)
	p := &pieces{make([]change, n), make([][]schemas.UserID, n)}
	encoded := t.Encode()
	for i := range p.changes {
		chunk := uint32(i)
		p.changes[i] = change{key: schemas.JobKey(t.User, chunk), encoded: encoded, chunk: chunk,
			partition: schemas.DeliveryPartition(t.User, true, chunk, r.Deliveries)}
	}
	return p
}

// add puts those of followers who are to be told, ascending, into their pieces, and
// appends the delivery records that are full. A follower's piece follows from its id
// alone, so that whatever is told of one user to one follower is in one partition, however
// the followers are cut into jobs. here is scratch space.
func (p *pieces) add(r *Room, out []schemas.Outgoing, followers, here []schemas.UserID) ([]schemas.Outgoing, []schemas.UserID) {
	r.Metrics.Followers.Add(float64(len(followers)))
	recipients := followers
	if !r.Config.Everyone {
		here = r.Here.Filter(here[:0], followers)
		recipients = here
	}
	for _, id := range recipients {
		i := schemas.PartitionOf(id, int32(len(p.changes)))
		p.waiting[i] = append(p.waiting[i], id)
		if len(p.waiting[i]) == schemas.MaxRecipients {
			out = append(out, r.delivery(&p.changes[i], p.waiting[i]))
			p.waiting[i] = p.waiting[i][:0]
		}
	}
	return out, here
}

// rest appends what add has left.
func (p *pieces) rest(r *Room, out []schemas.Outgoing) []schemas.Outgoing {
	for i, waiting := range p.waiting {
		if len(waiting) > 0 {
			out = append(out, r.delivery(&p.changes[i], waiting))
		}
	}
	return out
}

func (r *Room) job(j *schemas.FanoutJob) schemas.Outgoing {
	return schemas.Outgoing{Topic: schemas.Fanout, Partition: schemas.JobPartition(j.Transition.User, j.Chunk, r.Jobs),
		Key: schemas.JobKey(j.Transition.User, j.Chunk), Value: j.Encode()}
}
