package httpgate

import (
	"net/http"
	"strconv"
	"sync"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/problem"
	"github.com/stillhere/stillhere/schemas"
)

// arriving counts the bodies that are on their way, by who sends them. They take no slot
// before they are there, so that who sends slowly keeps nobody else out; what one caller
// may have under way is bounded instead. All of them together are bounded by the
// connections of the process.
type arriving struct {
	mu sync.Mutex // never held while anything blocks
	of map[sender]int
}

type sender struct {
	user    schemas.UserID
	gateway schemas.GatewayID
}

// enter makes room for a body. Without authentication nobody is known, and the bound
// is that of connections. leave is to be called when the body is there or given up.
func (a *arriving) enter(caller *ingest.Caller, each int) (leave func(), err error) {
	if caller == nil {
		return func() {}, nil
	}
	who := sender{caller.User, caller.Gateway}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[who] >= each {
		return nil, refuse(http.StatusTooManyRequests, problem.TooMany, "body",
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

// enter takes one of slots, or tells that there is none.
func enter(slots chan struct{}) (leave func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	default:
		return nil, overloaded("too many requests at a time")
	}
}
