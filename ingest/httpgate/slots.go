package httpgate

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/problem"
	"github.com/stillhere/stillhere/schemas"
)

// arriving counts incomplete bodies by sender. They take no slot, so a slow sender keeps no other
// caller out; the number per caller is bounded instead. The process's connection limit bounds all
// of them.
type arriving struct {
	mu sync.Mutex // never held while anything blocks
	of map[sender]int
}

type sender struct {
	user    schemas.UserID
	gateway schemas.GatewayID
}

// enter counts a body. Without authentication no sender is known, and only the connection limit
// applies. Call leave when the body is complete or given up.
func (a *arriving) enter(caller *ingest.Caller, each int) (leave func(), err error) {
	if caller == nil {
		return func() {}, nil
	}
	who := sender{caller.User, caller.Gateway}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[who] >= each {
		return nil, refuseFor(time.Second, http.StatusTooManyRequests, problem.TooMany, "body",
			"has to wait: "+strconv.Itoa(each)+" bodies of this caller have not arrived in full")
	}
	a.of[who]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.of[who]--; a.of[who] == 0 {
			delete(a.of, who)
		}
	}, nil
}

// enter takes one of slots, or fails if there is none.
func enter(slots chan struct{}) (leave func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	default:
		return nil, overloaded("too many requests at a time")
	}
}
