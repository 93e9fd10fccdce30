package expand

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// Worker is the task of one partition of presence.fanout.
type Worker struct{ deps *Dependencies }

// todo is a job and when it was written.
type todo struct {
	job *schemas.FanoutJob
	at  schemas.Millis
}

// NewWorker makes a Worker.
func (d *Dependencies) NewWorker() *Worker {
	d.once.Do(d.start)
	return &Worker{deps: d}
}

// pageSize is how many followers one query reads. Larger pages were not faster.
const pageSize = 10_000

// Restore has nothing to do: the state of a job is in its records.
func (*Worker) Restore(context.Context, stream.Assignment, stream.ReadFunc) error { return nil }

// Handle is not called.
func (w *Worker) Handle(*schemas.Record, *stream.Outbox) error {
	return errors.New("jobs are handled in batches")
}

// Checkpoint is empty.
func (*Worker) Checkpoint() string { return "" }

// HandleBatch runs jobs, some at the same time, and writes their results in the order of the jobs.
func (w *Worker) HandleBatch(ctx context.Context, records []schemas.Record, out *stream.Outbox) error {
	jobs, err := w.decode(records, out)
	if err != nil {
		return err
	}
	newest := NewNewest()
	for _, j := range jobs {
		newest.add(j.job.Transition)
	}
	results := make([]result, len(jobs))
	group, ctx := errgroup.WithContext(ctx)
	for i, j := range jobs {
		switch {
		case newest.Superseded(j.job.Transition):
			results[i].outcome = "superseded"
		case w.deps.Newest.Expired(j.at):
			results[i].outcome = "old"
		default:
			group.Go(func() (err error) { results[i], err = w.run(ctx, j.job); return err })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, r := range results {
		// A newer version may have come meanwhile. Its delivery records must not precede these.
		if len(r.records) > 0 && w.skipReason(jobs[i].job) != "" {
			r = result{outcome: "cut_short"}
		}
		out.Records = append(out.Records, r.records...)
		w.count(jobs[i].job, r.outcome)
	}
	return nil
}

// decode reads jobs.
func (w *Worker) decode(records []schemas.Record, out *stream.Outbox) (jobs []todo, _ error) {
	for i := range records {
		job, err := w.decodeJob(&records[i], out)
		if err != nil {
			return nil, err
		}
		if job != nil {
			jobs = append(jobs, todo{job: job, at: records[i].Time})
		}
	}
	return jobs, nil
}

// decodeJob reads a job; nil: the record was rejected.
func (w *Worker) decodeJob(record *schemas.Record, out *stream.Outbox) (*schemas.FanoutJob, error) {
	job, err := schemas.DecodeFanoutJob(record.Value)
	var t *schemas.Transition
	if err == nil {
		t = job.Transition
	}
	if rejected, err := w.deps.reject(schemas.Fanout, record, t, err, out); err != nil || rejected {
		return nil, err
	}
	return job, nil
}

// result is the outcome of a job and the records that it writes.
type result struct {
	records []schemas.Outgoing
	outcome string
}

// run runs a job when a slot is free.
func (w *Worker) run(ctx context.Context, job *schemas.FanoutJob) (r result, err error) {
	select {
	case w.deps.slots <- struct{}{}:
		defer func() { <-w.deps.slots }()
	case <-ctx.Done():
		return r, ctx.Err()
	}
	if outcome := w.skipReason(job); outcome != "" {
		return result{outcome: outcome}, nil
	}
	r.outcome = "done"
	switch job.Kind {
	case schemas.SplitJob:
		r.records, err = w.splitRanges(ctx, job)
	case schemas.RangeJob:
		if job.Transition.Denies != "" {
			r.records, err = w.announce(ctx, job)
			return r, err
		}
		return w.expandRange(ctx, job)
	}
	return r, err
}

// skipReason says why a job needs no delivery any more; empty: it needs one.
func (w *Worker) skipReason(job *schemas.FanoutJob) string {
	switch {
	case job.Transition.Denies != "":
		// Its announcements are withheld one by one.
	case w.deps.Newest.Superseded(job.Transition):
		return "superseded"
	case w.deps.hidden(job.Transition):
		return "hidden"
	}
	return ""
}

// splitRanges makes the RANGE jobs of a SPLIT job.
func (w *Worker) splitRanges(ctx context.Context, job *schemas.FanoutJob) ([]schemas.Outgoing, error) {
	t := job.Transition
	ends, err := w.deps.Graph.Ranges(ctx, t.User, w.deps.Config.JobFollowers)
	if err != nil {
		return nil, err
	}
	out := make([]schemas.Outgoing, 0, len(ends))
	after := schemas.UserID(0)
	viewers := named(t)
	for i, end := range ends {
		if t.Denies != "" && len(within(viewers, after, end)) == 0 {
			after = end
			continue
		}
		out = append(out, w.deps.job(&schemas.FanoutJob{Kind: schemas.RangeJob, Transition: t, After: after, Through: end,
			Chunk: uint32(i), Chunks: uint32(len(ends))}))
		after = end
	}
	return out, nil
}

// expandRange makes the delivery records of a RANGE job.
func (w *Worker) expandRange(ctx context.Context, job *schemas.FanoutJob) (result, error) {
	d, t := w.deps, job.Transition
	pieces := d.pieces(t)
	var out []schemas.Outgoing
	page, scratch := make([]schemas.UserID, 0, pageSize), make([]schemas.UserID, 0, pageSize)
	for after := job.After; ; {
		var err error
		if page, err = d.Graph.Page(ctx, page[:0], t.User, after, job.Through, pageSize); err != nil {
			return result{}, err
		}
		begun := time.Now()
		err = d.wait(ctx, len(page))
		d.Metrics.Paced.Add(time.Since(begun).Seconds())
		if err != nil {
			return result{}, fmt.Errorf("expanding the followers of %d: %w", t.User, err)
		}
		if w.skipReason(job) != "" {
			return result{outcome: "cut_short"}, nil
		}
		// A viewer may have been denied since the job began.
		denied, err := d.deniedBy(ctx, t)
		if err != nil {
			return result{}, err
		}
		followers := allowed(page, denied)
		names, err := d.namesOf(ctx, nil, followers)
		if err != nil {
			return result{}, err
		}
		pieces.named(names)
		out, scratch = pieces.add(d, out, followers, scratch)
		if len(page) < pageSize {
			return result{pieces.flush(d, out), "done"}, nil
		}
		after = page[len(page)-1]
	}
}

// announce makes the delivery records of a RANGE job of a transition with Denies.
func (w *Worker) announce(ctx context.Context, job *schemas.FanoutJob) (out []schemas.Outgoing, _ error) {
	d, t := w.deps, job.Transition
	denied, err := d.deniedBy(ctx, t)
	if err != nil {
		return nil, err
	}
	for _, a := range d.announcements(t, denied) {
		viewers := within(a.viewers, job.After, job.Through)
		follow, err := d.Graph.Followers(ctx, t.User, viewers)
		if err != nil {
			return nil, err
		}
		followers := make([]schemas.UserID, 0, len(viewers))
		for i, viewer := range viewers {
			if follow[i] {
				followers = append(followers, viewer)
			}
		}
		names, err := d.namesOf(ctx, nil, followers)
		if err != nil {
			return nil, err
		}
		pieces := d.pieces(a.transition)
		pieces.named(names)
		out, _ = pieces.add(d, out, followers, nil)
		out = pieces.flush(d, out)
	}
	return out, nil
}

// within returns those of users, who ascend, with after < id <= through.
func within(users []schemas.UserID, after, through schemas.UserID) []schemas.UserID {
	begin, _ := slices.BinarySearch(users, after+1)
	end, found := slices.BinarySearch(users, through)
	if found {
		end++
	}
	return users[begin:end]
}

func (w *Worker) count(job *schemas.FanoutJob, outcome string) {
	kinds := map[schemas.JobKind]string{schemas.SplitJob: "split", schemas.RangeJob: "range", schemas.StopJob: "stop"}
	w.deps.Metrics.Jobs.WithLabelValues(kinds[job.Kind], outcome).Inc()
}
