package canary

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/internal/tick"
	"github.com/stillhere/stillhere/schemas"
)

// walk is one user's loop of rounds. One goroutine owns all fields but ended.
type walk struct {
	*Canary
	user    User
	leave   string // how the user leaves
	changes <-chan change
	log     *slog.Logger

	known bool
	last  change   // the newest change that the stream has shown, if known
	shown []change // those of this round

	next      int64 // the first offset of presence.transitions that is not replayed; -1: unknown
	partition int32
	located   error // why next is unknown

	failures int    // rounds that have failed since the last successful one
	logged   string // step and reason of the failure that was logged last

	ended atomic.Int64 // when the last round ended, in Unix nanoseconds; 0: none has
}

// run walks until ctx ends.
func (w *walk) run(ctx context.Context) {
	for range tick.Now(ctx, w.config.Interval) {
		before := w.config.Policy().ID()
		fault := w.round(ctx)
		if ctx.Err() != nil {
			return // a round that was cut short has no result
		}
		if fault != nil && w.config.Policy().ID() != before {
			w.log.Info("another policy came into force, so a failed round is not counted", "error", fault)
		} else {
			w.count(fault)
		}
		w.ended.Store(time.Now().UnixNano())
	}
}

// count counts a round. Of failures in a row it logs the first, each that fails otherwise, and the end.
func (w *walk) count(fault *failure) {
	if fault == nil {
		w.metrics.rounds.WithLabelValues(w.leave, roundOK).Inc()
		w.metrics.success(w.leave)
		if w.failures > 0 {
			w.log.Info("rounds of the canary succeed again", "failed_rounds", w.failures)
		}
		w.failures, w.logged = 0, ""
		return
	}
	w.failures++
	w.metrics.rounds.WithLabelValues(w.leave, roundFails).Inc()
	w.metrics.failures.WithLabelValues(string(fault.step), string(fault.reason)).Inc()
	if kind := string(fault.step) + " " + string(fault.reason); kind != w.logged {
		w.logged = kind
		w.log.Warn("a round of the canary failed: users see the same; the runbook has an entry for each step",
			"step", fault.step, "reason", fault.reason, "error", fault.err)
	}
}

// round is one round; each step is bounded.
func (w *walk) round(ctx context.Context) *failure {
	if fault := w.prepare(ctx); fault != nil {
		return fault
	}
	base := w.last.version
	w.shown = nil
	began := time.Now()
	if fault := w.send(ctx, beat, false); fault != nil {
		return fault
	}
	w.metrics.took(beat, time.Since(began))
	came, fault := w.await(ctx, online, schemas.Online, began, 0)
	if fault != nil {
		return fault
	}
	if fault := w.read(ctx, came); fault != nil {
		return fault
	}
	if w.leave == byBye {
		fault = w.sayBye(ctx)
	} else {
		fault = w.fallSilent(ctx, began)
	}
	if fault != nil {
		return fault
	}
	return w.replay(ctx, base)
}

// prepare waits until the stream shows the user offline. A user who is not says bye, after a beat: a
// silent user who is away has no device left that could say it.
func (w *walk) prepare(ctx context.Context) *failure {
	w.locate(ctx)
	for drained := false; !drained; {
		select {
		case c := <-w.changes:
			w.takes(c)
		default:
			drained = true
		}
	}
	if !w.known {
		bounded, cancel := context.WithTimeout(ctx, w.config.Timeout)
		defer cancel()
		select {
		case c := <-w.changes:
			w.takes(c)
		case <-bounded.Done():
			return w.unseen(watching, "the stream does not show the user")
		}
	}
	if w.last.state == schemas.Offline {
		return nil
	}
	for _, leaves := range []bool{false, true} {
		if fault := w.send(ctx, reset, leaves); fault != nil {
			return fault
		}
	}
	return w.settle(ctx)
}

// settling is how long a user must have been offline before a round begins, and tries how often.
const (
	settling = time.Second
	tries    = 3
)

// settle waits until the user is and stays offline. The bye of a canary that has just stopped, and
// the beat and bye of prepare, may come one after the other.
func (w *walk) settle(ctx context.Context) *failure {
	for range tries {
		if _, fault := w.await(ctx, reset, schemas.Offline, time.Now(), w.config.Policy().ByeDebounce); fault != nil {
			return fault
		}
		settled := time.After(settling)
		for quiet := false; !quiet; {
			select {
			case c := <-w.changes:
				w.takes(c)
			case <-settled:
				quiet = true
			case <-ctx.Done():
				return w.unseen(reset, "the stream does not show that the user stays offline")
			}
		}
		if w.last.state == schemas.Offline {
			return nil
		}
	}
	return &failure{reset, wrong, errors.New("the user comes again after each bye: does another canary have the same --user?")}
}

// takes reports whether c is newer than what is known, and remembers it.
func (w *walk) takes(c change) bool {
	if w.known && c.version <= w.last.version {
		return false // the same, now or no longer marked as stale
	}
	w.known, w.last = true, c
	w.shown = append(w.shown, c)
	return true
}

// send is not cut short when ctx ends: a beat that is still on its way could arrive after the bye of
// Run, and the user would stay online.
func (w *walk) send(ctx context.Context, s step, leaves bool) *failure {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.config.Timeout)
	defer cancel()
	if err := send(bounded, w.config.Ingest, w.user, leaves); err != nil {
		return failed(s, err)
	}
	return nil
}

// earliest is how much earlier than its limit a change may arrive: this machine's clock and the
// broker's need not run equally fast.
const earliest = time.Second

// await waits until the stream shows the user in a state, which is due some time after from.
func (w *walk) await(ctx context.Context, s step, want schemas.State, from time.Time, due time.Duration) (change, *failure) {
	ctx, cancel := context.WithDeadline(ctx, from.Add(due+w.config.Timeout))
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return change{}, w.unseen(s, fmt.Sprintf("the stream does not show the user %s", schemas.StateWord(want)))
		case c := <-w.changes:
			before := w.last
			switch late := c.at.Sub(from) - due; {
			case !w.takes(c) || c.state == before.state || s == reset && c.state != want:
			case late < -earliest:
				return c, &failure{s, early, fmt.Errorf("the stream shows the user %s %s before the limit of the policy",
					schemas.StateWord(c.state), -late)}
			case c.state != want:
				return c, &failure{s, wrong, fmt.Errorf("the stream shows the user %s in place of %s",
					schemas.StateWord(c.state), schemas.StateWord(want))}
			default:
				if s != reset {
					w.metrics.took(s, late)
				}
				return c, nil
			}
		}
	}
}

// unseen is a step that ended without a change on the stream.
func (w *walk) unseen(s step, what string) *failure {
	err := errors.New(what)
	if fault := w.stream.fault(); fault != nil {
		err = fmt.Errorf("%s, which is not connected: %w", what, fault)
	}
	return &failure{s, timeout, err}
}

// pollInterval is the time between two reads of a user who is behind the stream.
const pollInterval = 20 * time.Millisecond

// read reads the user until the answer has at least the version that the stream has shown.
func (w *walk) read(ctx context.Context, shown change) *failure {
	ctx, cancel := context.WithTimeout(ctx, w.config.Timeout)
	defer cancel()
	began, behind := time.Now(), false
	for {
		p, err := w.reads.One(ctx, w.user.key())
		switch {
		case err != nil && behind && ctx.Err() != nil:
			return &failure{read, stale, errors.New("answers are marked as stale, or older than what the stream has shown")}
		case err != nil:
			return failed(read, err)
		}
		version, err := strconv.ParseInt(p.Version, 10, 64)
		if err != nil {
			return &failure{read, wrong, fmt.Errorf("the answer has the version %q", p.Version)}
		}
		if behind = schemas.Version(version) < shown.version || p.StaleSince != 0; !behind {
			if p.State == nil || *p.State != schemas.StateWord(shown.state) {
				return &failure{read, wrong, fmt.Errorf("the answer is not %s", schemas.StateWord(shown.state))}
			}
			w.metrics.took(read, time.Since(began))
			return nil
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
		}
	}
}

func (w *walk) sayBye(ctx context.Context) *failure {
	from := time.Now()
	if fault := w.send(ctx, bye, true); fault != nil {
		return fault
	}
	_, fault := w.await(ctx, bye, schemas.Offline, from, w.config.Policy().ByeDebounce)
	return fault
}

// fallSilent waits for what the policy says of a user after the last heartbeat.
func (w *walk) fallSilent(ctx context.Context, beaten time.Time) *failure {
	for _, due := range policy.Timeline(w.config.Policy()) {
		s := silence
		switch due.State {
		case schemas.Online:
			continue
		case schemas.Away:
			s = away
		}
		if _, fault := w.await(ctx, s, due.State, beaten, due.After); fault != nil {
			return fault
		}
	}
	return nil
}
