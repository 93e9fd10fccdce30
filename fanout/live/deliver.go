package live

import (
	"runtime"
	"slices"
	"time"
)

// minPerGoroutine is how many viewers a goroutine has at least, while there are so many:
// writing to one takes some microseconds, about what a goroutine costs.
const minPerGoroutine = 32

// serve works for viewers whom something has been queued for, by as many
// goroutines as there are processors: one for each viewer would cost more than
// the writing, and would put all of them before whatever comes next.
func serve(resting []*viewer) {
	if len(resting) == 0 {
		return
	}
	parts := min(runtime.GOMAXPROCS(0), (len(resting)+minPerGoroutine-1)/minPerGoroutine)
	for part := range slices.Chunk(resting, (len(resting)+parts-1)/parts) {
		go func() { // each viewer's close waits for its turn here
			for _, v := range part {
				v.workBriefly()
			}
		}()
	}
}

// workBriefly does what work does, as long as that means no waiting. What may take longer
// is left to a goroutine of the viewer's own.
func (v *viewer) workBriefly() {
	for {
		st, more := v.change()
		if st == nil {
			if more {
				go v.work()
			}
			return
		}
		finish, err := v.offer(st)
		switch {
		case err != nil:
			v.end(err)
			return
		case finish != nil:
			go func() {
				if err := finish(); err != nil {
					v.end(err)
					return
				}
				v.work()
			}()
			return
		}
	}
}

// change takes the next change or delivery if nothing has to be done before it. Without one, more
// says whether there is other work; if not, the viewer rests.
func (v *viewer) change() (next *state, more bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.ended && (len(v.requests) > 0 || v.tooSlow || v.collapsed > 0 || v.queue.peekResync()) {
		return nil, true
	}
	if !v.ended {
		if item, ok := v.queue.pop(); ok && !item.resync {
			return item.state, false
		} else if ok {
			v.queue.unpop(item)
			return nil, true
		}
		if st := v.deliveries.pop(); st != nil {
			return st, false
		}
		v.behind = time.Time{}
	}
	v.rest()
	return nil, false
}
