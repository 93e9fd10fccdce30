package expand

import (
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// In text mode tenants get turns in planner and worker. What is read goes into a backlog, at most
// Config.Ahead records of a partition. A call handles a part of it: the partitions of a process wait for
// each other, so those that have a backlog share what is handled at a time.
const (
	// turnOfPlanner is how many followers a tenant's changes may have in a turn. A change counts as its
	// followers and changeCost, and as changePrice until they are known.
	turnOfPlanner = 1_000
	changeCost    = 16
	changePrice   = 64
	// plannedChanges and plannedFollowers bound what is planned at a time.
	plannedChanges   = 256
	plannedFollowers = 50_000
	leastChanges     = 16
	leastFollowers   = 10_000
	// jobsAtATime is how many jobs are run at a time. In a turn a tenant has a job of Config.JobFollowers, or
	// smallJobs that read few followers.
	jobsAtATime = 4
	smallJobs   = 10
)

// inTurns reports whether tenants get turns.
func (d *Dependencies) inTurns() bool { return d.Names != nil && d.Config.Ahead > 0 }

// takeNewest adds records to the backlog and returns the newest transition of each user of those whose
// turn it is, a tenant's in the order of the log.
func (p *Planner) takeNewest(records []schemas.Record, out *stream.Outbox) ([]delayedChange, error) {
	for i := range records {
		if err := p.queue(&records[i], out); err != nil {
			return nil, err
		}
	}
	if p.delayed.catchesUp() && p.backlog.capacity() > 0 {
		return nil, nil
	}
	var all []delayedChange
	for _, q := range p.backlog.take(p.backlog.share(plannedChanges, leastChanges)) {
		if q.passed {
			p.count("superseded")
			continue
		}
		all = append(all, delayedChange{change: q.item, offset: q.offset})
	}
	return p.newestOf(all), nil
}

// queue adds a record to the backlog, unless it was handled before a restart or is there because the
// batch comes again.
func (p *Planner) queue(record *schemas.Record, out *stream.Outbox) error {
	at, again := record.Offset, record.Offset < p.delayed.next
	if at < p.delayed.handledUpTo && !p.delayed.waited(at) {
		out = &stream.Outbox{} // what is rejected now was rejected before
	}
	t, err := p.decode(record, out)
	switch {
	case err != nil:
		return err
	case t == nil || again:
	case p.delayed.handled(at, t.Name.Tenant):
		p.backlog.pass(t.User, at)
	case p.delayed.waited(at):
		p.delayed.add(t, at, p.now()) // its turn was before the restart
	default:
		p.backlog.push(t.Name.Tenant, t.User, at, t)
	}
	p.delayed.next = max(p.delayed.next, at+1)
	return nil
}

// turn is what becomes of the backlog's group.
type turn struct {
	planned []queued[*schemas.Transition]
	costs   map[int64]int                 // by offset
	back    []queued[*schemas.Transition] // they stay in the backlog
}

// affordable returns what may be planned at a time of todo.
func (p *Planner) affordable(todo []delayedChange, followers []graph.Followers) (affords []delayedChange, theirs []graph.Followers, t turn) {
	t.costs = make(map[int64]int, len(todo))
	for i, w := range todo {
		t.costs[w.offset] = changeCost + len(followers[i].IDs)
	}
	stays := map[int64]struct{}{}
	spent, most := 0, p.backlog.share(plannedFollowers, leastFollowers)
	for _, q := range p.backlog.group {
		cost, due := t.costs[q.offset]
		switch {
		case !due:
		case spent >= most:
			stays[q.offset] = struct{}{}
			t.back = append(t.back, q)
		default:
			spent += cost
			t.planned = append(t.planned, q)
		}
	}
	for i, w := range todo {
		if _, stay := stays[w.offset]; !stay {
			affords, theirs = append(affords, w), append(theirs, followers[i])
		}
	}
	return affords, theirs, t
}

// endTurn charges the tenants for what was planned.
func (p *Planner) endTurn(t turn) {
	for _, q := range t.planned {
		p.backlog.charge(q, t.costs[q.offset])
	}
	p.backlog.done(t.back)
}

// takeJobs adds records to the backlog and returns the jobs whose turn it is, a tenant's in the order of
// the log.
func (w *Worker) takeJobs(records []schemas.Record, out *stream.Outbox) (jobs []todo, _ error) {
	for i := range records {
		if err := w.queue(&records[i], out); err != nil {
			return nil, err
		}
	}
	if w.catchesUp() && w.backlog.capacity() > 0 {
		return nil, nil
	}
	for _, q := range w.backlog.take(w.backlog.share(jobsAtATime, 1)) {
		q.item.superseded = q.passed
		jobs = append(jobs, q.item)
	}
	return jobs, nil
}

// queue is that of the planner.
func (w *Worker) queue(record *schemas.Record, out *stream.Outbox) error {
	at, again := record.Offset, record.Offset < w.next
	if at < w.handledUpTo {
		out = &stream.Outbox{}
	}
	job, err := w.decodeJob(record, out)
	if err != nil {
		return err
	}
	switch {
	case job == nil || again:
	case w.handled(at, job.Transition.Name.Tenant):
		w.backlog.pass(job.Transition.User, at)
	default:
		w.backlog.push(job.Transition.Name.Tenant, job.Transition.User, at, todo{job: job, at: record.Time})
	}
	w.next = max(w.next, at+1)
	return nil
}

// endJobs charges the tenants for the jobs of the group.
func (w *Worker) endJobs(results []result) {
	for i, q := range w.backlog.group {
		w.backlog.charge(q, max(w.deps.Config.JobFollowers/smallJobs, results[i].read))
	}
	w.backlog.done(nil)
}
