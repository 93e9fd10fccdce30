package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/stillhere/stillhere/tools/progress"
)

// Options say how to measure.
type Options struct {
	// Users is how many there are; 0: as many as the bench's target names.
	Users int
	// Seconds is how long the measured part lasts, as near as the bench can; 0: what it takes
	// to get steady figures.
	Seconds float64
	// Partitions of each topic.
	Partitions int32
	// Brokers is the Kafka to measure on; none: the stand-in, in another process.
	Brokers []string
	// Process makes the command that runs this program as a helper, such as "serve" (Serve).
	Process func(ctx context.Context, name string) *exec.Cmd
	// Progress shows a person at a terminal how far a bench is.
	Progress *progress.Line
}

// Bench is one of them. Users and Seconds are what it takes where the options say 0.
type Bench struct {
	Name    string
	What    string
	Users   int
	Seconds float64
	Run     func(*T)
}

// Run runs benches. What was measured until something went wrong is in the report beside the
// error.
func Run(ctx context.Context, o Options, benches ...Bench) (*Report, error) {
	r := &Report{At: time.Now().UTC().Truncate(time.Second), Machine: lookAtMachine(),
		Kafka: "the stand-in (kfake), in a process of its own on the same machine"}
	if len(o.Brokers) > 0 {
		r.Kafka = fmt.Sprint(o.Brokers)
	}
	if o.Users < 0 || o.Seconds < 0 || o.Partitions < 1 {
		return r, errors.New("users and seconds must not be negative, partitions must be positive")
	}
	for _, b := range benches {
		result, err := b.measure(ctx, o)
		r.Results = append(r.Results, result)
		if err != nil {
			return r, fmt.Errorf("bench %s: %w", b.Name, err)
		}
	}
	return r, nil
}

func (b *Bench) measure(ctx context.Context, o Options) (Result, error) {
	t := &T{Options: o, ctx: ctx, Given: o.Seconds != 0}
	t.Users, t.Seconds = cmp.Or(o.Users, b.Users), cmp.Or(o.Seconds, b.Seconds)
	t.Result = Result{Name: b.Name, What: b.What, Population: t.Users, Load: loadAverage()}
	begun := time.Now()
	o.Progress.Note("bench %s: %s (load average %.1f)", b.Name, b.What, t.Load)
	func() {
		defer func() {
			if r := recover(); r != nil {
				if err, _ := r.(error); !errors.Is(err, errFailed) {
					panic(r)
				}
			}
		}()
		t.Part(func() { b.Run(t) })
	}()
	o.Progress.Clear()
	t.Took = time.Since(begun).Seconds()
	return t.Result, t.err
}

// T is one run of a bench, as testing.T is one run of a test: Check and Fatalf end it, what
// Cleanup was given runs afterwards. Only the goroutine of the bench may call its methods.
type T struct {
	Options
	Result
	Given bool // the options said how long to measure

	ctx      context.Context //nolint:containedctx // of the run, as in testing.T
	err      error
	cleanups []func() error
}

// errFailed is the panic that ends a bench; the reason is in T.err.
var errFailed = errors.New("the bench has failed")

// Context is that of the run.
func (t *T) Context() context.Context { return t.ctx }

// Check ends the bench if something went wrong.
func (t *T) Check(err error) {
	if err != nil {
		t.err = errors.Join(t.err, err)
		panic(errFailed)
	}
}

// Fatalf ends the bench.
func (t *T) Fatalf(format string, args ...any) { t.Check(fmt.Errorf(format, args...)) }

// Cleanup runs f at the end of the part. An error of it makes the bench fail.
func (t *T) Cleanup(f func() error) { t.cleanups = append(t.cleanups, f) }

// Part runs a part of the bench, and what was given to Cleanup in it, the last first.
func (t *T) Part(part func()) {
	outer := t.cleanups
	t.cleanups = nil
	defer func() {
		for _, f := range slices.Backward(t.cleanups) {
			t.err = errors.Join(t.err, f())
		}
		t.cleanups = outer
	}()
	part()
}

// Length is Seconds as a duration.
func (t *T) Length() time.Duration { return time.Duration(t.Seconds * float64(time.Second)) }

// Measured runs the part that is measured, and returns how long it took.
func (t *T) Measured(part func()) time.Duration {
	begun := time.Now()
	part()
	return time.Since(begun)
}

// Timeout bounds every wait of a bench with up to a million users; see T.patience.
const Timeout = 3 * time.Minute

// patience bounds every wait of this bench.
func (t *T) patience() time.Duration {
	return Timeout * time.Duration(max(1, t.Users/1_000_000))
}

// Until waits for something to become true, looking every millisecond. what says in the error
// and while waiting what that is.
func (t *T) Until(what func() string, done func() bool) {
	finished := false
	t.Every(time.Millisecond, t.patience(), func() bool {
		t.Progress.Say("  %s", what())
		finished = done()
		return !finished
	})
	if !finished {
		t.Fatalf("gave up after %s: %s", t.patience(), what())
	}
}

// Every calls step again and again, with a pause before each call but the first, until step
// returns false or length has passed.
func (t *T) Every(pause, length time.Duration, step func() bool) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for begun := time.Now(); time.Since(begun) < length && step(); {
		select {
		case <-ticker.C:
		case <-t.ctx.Done():
			t.Check(t.ctx.Err())
		}
	}
}

// Pause waits, but not beyond the end of ctx.
func Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
