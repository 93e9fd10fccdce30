package expand

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/stillhere/stillhere/schemas"
)

// Worker is the task of one partition of presence.fanout.
type Worker struct{ room *Room }

// NewWorker makes one.
func (r *Room) NewWorker() *Worker {
	r.once.Do(func() { r.work = make(chan struct{}, r.Config.Parallel) })
	return &Worker{r}
}

// pageSize is how many followers are read from the graph at a time; measured to be
// where more gains nothing.
const pageSize = 10_000

// Restore has nothing to restore.
func (w *Worker) Restore(context.Context, schemas.Commit, func(context.Context, schemas.Topic, int64, int64, func(*schemas.Record) error) error) error {
	return nil
}

// Handle is not called.
func (w *Worker) Handle(*schemas.Record, *schemas.Outbox) error {
	return errors.New("jobs are handled in batches")
}

// Checkpoint has nothing to keep.
func (w *Worker) Checkpoint() string { return "" }

// HandleBatch does jobs, some at the same time, and puts out what came of them in
// their order.
func (w *Worker) HandleBatch(ctx context.Context, records []schemas.Record, out *schemas.Outbox) error {
	jobs := make([]*schemas.FanoutJob, len(records))
	newest := NewNewest()
	for i := range records {
		job, err := schemas.DecodeFanoutJob(records[i].Value)
		var t *schemas.Transition
		if err == nil {
			t = job.Transition
		}
		rejected, err := w.room.reject(schemas.Fanout, &records[i], t, err, out)
		if err != nil {
			return err
		}
		if rejected {
			continue
		}
		jobs[i] = job
		newest.versions[job.Transition.User] = max(newest.versions[job.Transition.User], job.Transition.Version)
	}
	results := make([]result, len(jobs))
	group, ctx := errgroup.WithContext(ctx)
	for i, job := range jobs {
		switch {
		case job == nil:
		case newest.Void(job.Transition):
			results[i].outcome = "superseded"
		case w.room.Newest.Forgotten(records[i].Time):
			results[i].outcome = "old"
		default:
			group.Go(func() (err error) { results[i], err = w.do(ctx, job); return err })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, r := range results {
		// While other jobs were done a newer version may have come, whose delivery
		// records must not be before these.
		if len(r.records) > 0 && w.void(jobs[i]) != "" {
			r = result{outcome: "cut_short"}
		}
		out.Records = append(out.Records, r.records...)
		if jobs[i] != nil {
			w.count(jobs[i], r.outcome)
		}
	}
	return nil
}

// result is what came of a job.
type result struct {
	records []schemas.Outgoing
	outcome string
}

// do does a job when it is its turn.
func (w *Worker) do(ctx context.Context, job *schemas.FanoutJob) (r result, err error) {
	select {
	case w.room.work <- struct{}{}:
		defer func() { <-w.room.work }()
	case <-ctx.Done():
		return r, ctx.Err()
	}
	if outcome := w.void(job); outcome != "" {
		return result{outcome: outcome}, nil
	}
	r.outcome = "done"
	switch job.Kind {
	case schemas.SplitJob:
		r.records, err = w.split(ctx, job)
	case schemas.RangeJob:
		return w.tell(ctx, job)
	}
	return r, err
}

// void tells why nobody is to be told of this any more, if so.
func (w *Worker) void(job *schemas.FanoutJob) string {
	switch {
	case w.room.Newest.Void(job.Transition):
		return "superseded"
	case w.room.hides(job.Transition):
		return "hidden"
	}
	return ""
}

// split makes the jobs of an expansion.
func (w *Worker) split(ctx context.Context, job *schemas.FanoutJob) ([]schemas.Outgoing, error) {
	t := job.Transition
	ends, err := w.room.Graph.Ranges(ctx, t.User, w.room.Config.JobFollowers)
	if err != nil {
		return nil, err
	}
	out := make([]schemas.Outgoing, 0, len(ends))
	after := schemas.UserID(0)
	for i, end := range ends {
		out = append(out, w.room.job(&schemas.FanoutJob{Kind: schemas.RangeJob, Transition: t, After: after, Through: end,
			Chunk: uint32(i), Chunks: uint32(len(ends))}))
		after = end
	}
	return out, nil
}

// tell makes the delivery records of a range.
func (w *Worker) tell(ctx context.Context, job *schemas.FanoutJob) (result, error) {
	r, t := w.room, job.Transition
	pieces := r.pieces(t)
	var out []schemas.Outgoing
	page, here := make([]schemas.UserID, 0, pageSize), make([]schemas.UserID, 0, pageSize)
	for after := job.After; ; {
		var err error
		if page, err = r.Graph.Page(ctx, page[:0], t.User, after, job.Through, pageSize); err != nil {
			return result{}, err
		}
		waited, err := r.pace.wait(ctx, len(page), r.Config.Rate)
		r.Metrics.Paced.Add(waited.Seconds())
		if err != nil {
			return result{}, fmt.Errorf("telling the followers of %d: %w", t.User, err)
		}
		if w.void(job) != "" {
			return result{outcome: "cut_short"}, nil
		}
		out, here = pieces.add(r, out, page, here)
		if len(page) < pageSize {
			return result{pieces.rest(r, out), "done"}, nil
		}
		after = page[len(page)-1]
	}
}

func (w *Worker) count(job *schemas.FanoutJob, outcome string) {
	kinds := map[schemas.JobKind]string{schemas.SplitJob: "split", schemas.RangeJob: "range", schemas.StopJob: "stop"}
	w.room.Metrics.Jobs.WithLabelValues(kinds[job.Kind], outcome).Inc()
}
