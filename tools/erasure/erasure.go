package erasure

import (
	"context"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Source lists users of a tenant; the durable store and the follower graph are sources.
type Source interface {
	// NamesOfTenant returns users with ids greater than after, ascending, at most limit; fewer only at
	// the end.
	NamesOfTenant(ctx context.Context, tenant string, after schemas.UserID, limit int) ([]schemas.UserName, error)
}

// Options say what Run erases.
type Options struct {
	Tenant  string
	Sources []Source
	// Erase asks the pipeline to erase users, and returns when it has taken the request.
	Erase func(context.Context, []schemas.UserName) error
	// Rate is how many users are erased a second; at least 1.
	Rate int
	// Poll is the time between two looks at what is left; Stall the time without progress after which
	// the rest is erased again; Quiet the time for which nobody must be left before Run ends.
	Poll, Stall, Quiet time.Duration
	// Passes bounds how often the users are listed.
	Passes int
	// Progress, unless nil, is called with how many users were erased, after each second of erasures.
	Progress func(erased int64)
}

// Defaults are the options without a tenant.
func Defaults() Options {
	return Options{Rate: 1000, Poll: 2 * time.Second, Stall: time.Minute, Quiet: 15 * time.Second, Passes: 5}
}

// Result is what Run has done.
type Result struct {
	Erased int64 // erasures written; a user who is found twice counts twice
	Passes int
	Left   int64 // users who are still listed
}

// Count returns how many users the sources list, each once.
func Count(ctx context.Context, tenant string, sources []Source) (n int64, err error) {
	l := newList(tenant, sources, 10_000)
	for {
		names, err := l.next(ctx)
		if err != nil || len(names) == 0 {
			return n, err
		}
		n += int64(len(names))
	}
}

// Run erases the users of the tenant until no source lists one. After an error the Result says what was
// done before.
func Run(ctx context.Context, o Options) (done Result, err error) {
	for done.Passes < o.Passes {
		done.Passes++
		if err := o.pass(ctx, &done); err != nil {
			return done, err
		}
		clean, err := o.settle(ctx)
		if err != nil || clean {
			return done, err
		}
	}
	done.Left, err = Count(ctx, o.Tenant, o.Sources)
	return done, err
}

// pass erases every user who is listed.
func (o *Options) pass(ctx context.Context, done *Result) error {
	l := newList(o.Tenant, o.Sources, o.Rate)
	for {
		began := time.Now()
		names, err := l.next(ctx)
		if err != nil || len(names) == 0 {
			return err
		}
		if err := o.Erase(ctx, names); err != nil {
			return err
		}
		done.Erased += int64(len(names))
		if o.Progress != nil {
			o.Progress(done.Erased)
		}
		if err := wait(ctx, time.Second*time.Duration(len(names))/time.Duration(o.Rate)-time.Since(began)); err != nil {
			return err
		}
	}
}

// settle waits until nobody has been listed for a while, or the list does not get shorter at its start.
func (o *Options) settle(ctx context.Context) (clean bool, err error) {
	var first schemas.UserID // who is left
	since := time.Now()      // so
	for begun := false; ; begun = true {
		names, err := newList(o.Tenant, o.Sources, 1).next(ctx)
		if err != nil {
			return false, err
		}
		var left schemas.UserID
		if len(names) > 0 {
			left = names[0].User
		}
		if !begun || left != first {
			first, since = left, time.Now()
		}
		switch same := time.Since(since); {
		case left == 0 && same >= o.Quiet:
			return true, nil
		case left != 0 && same >= o.Stall:
			return false, nil
		}
		if err := wait(ctx, o.Poll); err != nil {
			return false, err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(max(0, d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
