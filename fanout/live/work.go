package live

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// start starts work unless it runs. Holds mu.
func (v *viewer) start() {
	if !v.working && !v.ended {
		v.working = true
		go v.work(nil)
	}
}

// startOrRest starts work. Where changes can be offered it leaves that to serve: it reports whether
// nobody worked for the viewer until now. Holds mu.
func (v *viewer) startOrRest() (resting bool) {
	if v.offer == nil {
		v.start()
		return false
	}
	resting = !v.working
	v.working = true
	return resting
}

// work does step, if any, and then whatever there is to do.
func (v *viewer) work(step func() error) {
	for {
		if step != nil {
			if err := step(); err != nil {
				v.end(err)
				return
			}
		}
		st, next := v.next()
		if st != nil {
			next = func() error { return v.sendState(st) }
		}
		if step = next; step == nil {
			return
		}
	}
}

// next chooses what to do: requests first, then the count of dropped changes, then changes, then
// deliveries. It returns a change or delivery to send as it is, or a step; neither: the work ends.
func (v *viewer) next() (*state, func() error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.ended:
		v.rest()
		return nil, nil
	case len(v.requests) > 0:
		r := v.requests[0]
		if v.requests = v.requests[1:]; len(v.requests) == 0 {
			v.requests = nil
		}
		v.signalSpace()
		return nil, func() error { return v.do(r) }
	case v.tooSlow:
		return nil, func() error {
			// The viewer is closed whether or not it can be sent this.
			_ = v.sendError(&schemas.FieldError{Code: "too_slow", Reason: "reading too slowly for too long"})
			return errTooSlow
		}
	case v.collapsed > 0:
		message := collapsedMessage(v.collapsed)
		v.collapsed = 0
		return nil, func() error { return v.send(message) }
	}
	item, ok := v.queue.pop()
	switch {
	case ok && item.resync:
		return nil, v.resync(item)
	case ok:
		return item.state, nil
	}
	if st := v.deliveries.pop(v.subs); st != nil {
		return st, nil
	}
	v.behind = time.Time{}
	v.rest()
	return nil, nil
}

// resync collects the corrections from first on into one message. Holds mu.
func (v *viewer) resync(first queued) func() error {
	users := []*state{first.state}
	for len(users) < readLength && v.queue.peekResync() {
		item, ok := v.queue.pop()
		switch {
		case ok && item.resync:
			users = append(users, item.state)
		case ok:
			// The next correction was not wanted any more; a change came after it.
			change := item.state
			return func() error { return errors.Join(v.sendUsers("resync", users), v.sendState(change)) }
		}
	}
	return func() error { return v.sendUsers("resync", users) }
}

// rest notes that work ends. Holds mu.
func (v *viewer) rest() {
	v.working = false
	if v.stopped != nil {
		close(v.stopped)
	}
}

func (v *viewer) signalSpace() {
	select {
	case v.space <- struct{}{}:
	default:
	}
}

// minPerGoroutine is how many viewers a goroutine of serve has at least, while there are that many.
// A write to one viewer takes some microseconds, about as much as a goroutine.
const minPerGoroutine = 32

// serve works for resting viewers, with as many goroutines as there are processors. One goroutine
// for each viewer would cost more than the writes and run before everything that comes next.
func serve(resting []*viewer) {
	if len(resting) == 0 {
		return
	}
	parts := min(runtime.GOMAXPROCS(0), (len(resting)+minPerGoroutine-1)/minPerGoroutine)
	for part := range slices.Chunk(resting, (len(resting)+parts-1)/parts) {
		go func() { // each viewer's close waits for its turn here
			for _, v := range part {
				v.workWithoutBlocking()
			}
		}()
	}
}

// workWithoutBlocking offers changes. It leaves everything that may block to a goroutine.
func (v *viewer) workWithoutBlocking() {
	for {
		st, step := v.next()
		if st == nil {
			if step != nil {
				go v.work(step)
			}
			return
		}
		finish, err := v.offer(st)
		if err != nil {
			v.end(err)
			return
		}
		if finish != nil {
			go v.work(finish)
			return
		}
	}
}

// end ends the viewer from within work.
func (v *viewer) end(reason error) {
	v.mu.Lock()
	first := !v.ended
	v.shut()
	v.mu.Unlock()
	// If the transport ended the viewer, it knows. A write timeout ends both, and either can be first.
	if v.fail != nil && (first || errors.Is(reason, os.ErrDeadlineExceeded)) {
		v.fail(reason)
	}
	v.mu.Lock()
	v.rest()
	v.mu.Unlock()
}

// shut drops what waits and what comes from now on. Holds mu.
func (v *viewer) shut() {
	v.ended = true
	v.requests = nil
	v.queue.drop()
	v.deliveries.drop()
	v.signalSpace()
}

// close ends the viewer, waits for its goroutine and removes its subscriptions. Every call waits.
func (v *viewer) close() {
	v.once.Do(func() {
		v.mu.Lock()
		v.shut()
		if v.interrupt != nil {
			v.interrupt()
		}
		var stopped chan struct{}
		if v.working {
			stopped = make(chan struct{})
			v.stopped = stopped
		}
		v.mu.Unlock()
		if stopped != nil {
			<-stopped
		}
		if v.recheckTimer != nil {
			v.recheckTimer.Stop()
		}
		v.unsubscribeAll()
		v.settleCount()
		v.hub.recipients.leave(v)
	})
}
