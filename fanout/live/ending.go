package live

import (
	"errors"
	"os"
)

// end ends the viewer from within work.
func (v *viewer) end(reason error) {
	v.mu.Lock()
	first := !v.ended
	v.shut()
	v.mu.Unlock()
	// When the transport ended it, that knows. A write that took too long ends both,
	// and either can be first.
	if v.fail != nil && (first || errors.Is(reason, os.ErrDeadlineExceeded)) {
		v.fail(reason)
	}
	v.mu.Lock()
	v.rest()
	v.mu.Unlock()
}

// shut has nothing taken in any more. Holds mu.
func (v *viewer) shut() {
	v.ended = true
	v.requests = nil
	v.queue.drop()
	v.deliveries.drop()
	v.signalSpace()
}

// close ends the viewer, waits until its goroutine has ended and gives back its
// subscriptions. It may be called more than once; each call waits.
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
			v.recheckTimer.Stop() // or it finds that the viewer has ended
		}
		v.unsubscribeAll()
		v.hub.recipients.leave(v)
	})
}
