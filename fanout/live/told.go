package live

import (
	"context"
	"net/url"
	"strconv"
	"sync"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/dedup"
	"github.com/stillhere/stillhere/schemas"
)

// pairsKept is of how many pairs of recipient and user a node knows what was told
// last, about 60 bytes each. What comes again does so within moments.
const pairsKept = 100_000

// recipients are the viewers who want to be told of those they follow.
type recipients struct {
	offered bool // by whoever made the server
	seen    *dedup.Cache

	mu sync.RWMutex // never held while anything blocks; after it, a viewer's
	of map[schemas.UserID][]*viewer
}

func (r *recipients) join(v *viewer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[v.who] = append(r.of[v.who], v)
}

// leave undoes join, if there was one.
func (r *recipients) leave(v *viewer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.of[v.who]
	for i := range all {
		if all[i] == v {
			all[i] = all[len(all)-1]
			all[len(all)-1] = nil
			r.of[v.who] = all[:len(all)-1]
			break
		}
	}
	if len(r.of[v.who]) == 0 {
		delete(r.of, v.who)
	}
}

// here is those of users who are told on this node.
func (r *recipients) here(users []schemas.UserID) []schemas.UserID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var here []schemas.UserID
	if len(r.of) == 0 {
		return nil
	}
	for _, u := range users {
		if _, ok := r.of[u]; ok {
			here = append(here, u)
		}
	}
	return here
}

// deliver tells those of the recipients who are here and may be told, unless they were
// told of this version or a newer one. Where it cannot be decided who may be told,
// nobody is, and the error says why. One goroutine calls it.
func (h *hub) deliver(ctx context.Context, d *schemas.Delivery) error {
	t := d.Transition
	here := h.told.here(d.Recipients)
	c, visible := fanout.ChangeOf(t)
	if len(here) == 0 || !visible || c.Hides() {
		return nil
	}
	if h.mayBeTold != nil {
		asking, cancel := context.WithTimeout(ctx, h.cfg.ReadTimeout)
		refused, err := h.mayBeTold(asking, t.User, here)
		cancel()
		if err != nil {
			return err
		}
		if here = without(here, refused); len(here) == 0 {
			return nil
		}
	}
	here = h.told.seen.Fresh(t.User, t.Version, here)
	h.told.seen.Add(t.User, t.Version, here)
	st := encoded(deliveryHead, c.After(schemas.Presence{}))
	var resting []*viewer
	h.told.mu.RLock()
	for _, u := range here {
		for _, v := range h.told.of[u] {
			if v.pushDelivery(t.User, st) {
				resting = append(resting, v)
			}
		}
	}
	h.told.mu.RUnlock()
	h.metrics.DeliveriesSent.Add(float64(len(here)))
	deliver(resting)
	return nil
}

// notices are the deliveries that wait for one viewer, in order.
type notices struct{ items []notice }

type notice struct {
	user  schemas.UserID
	state *state
}

// push appends. When limit wait already, the newest of each user stay, and of more
// users than fit those that waited longest go. It reports how many were left out.
func (n *notices) push(item notice, limit int) (dropped int) {
	if len(n.items) >= limit {
		seen := map[schemas.UserID]struct{}{item.user: {}}
		kept := len(n.items)
		for i := len(n.items) - 1; i >= 0; i-- {
			if _, again := seen[n.items[i].user]; !again {
				seen[n.items[i].user] = struct{}{}
				kept--
				n.items[kept] = n.items[i]
			}
		}
		dropped = max(kept, len(n.items)+1-limit)
		n.items = append([]notice(nil), n.items[dropped:]...)
	}
	n.items = append(n.items, item)
	return dropped
}

// pop takes the first; nil when there is none.
func (n *notices) pop() *state {
	if n == nil || len(n.items) == 0 {
		return nil
	}
	st := n.items[0].state
	n.items[0] = notice{}
	if n.items = n.items[1:]; len(n.items) == 0 {
		n.items = nil
	}
	return st
}

func (n *notices) drop() {
	if n != nil {
		n.items = nil
	}
}

// pushDelivery queues a delivery; resting as in pushChange.
func (v *viewer) pushDelivery(user schemas.UserID, st *state) (resting bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended || v.notices == nil {
		return false
	}
	v.leftOut(v.notices.push(notice{user, st}, v.hub.cfg.QueueLength))
	if v.offer == nil {
		v.start()
		return false
	}
	resting = !v.working
	v.working = true
	return resting
}

// wantDeliveries begins or ends the telling, and says so.
func (v *viewer) wantDeliveries(on bool) error {
	switch {
	case !v.hub.told.offered:
		return v.sendError(&schemas.FieldError{Code: "no_deliveries", Reason: "deliveries are not offered here"})
	case v.who == 0:
		return v.sendError(&schemas.FieldError{Code: "unknown_viewer", Reason: "who watches is not known, so there is nobody to tell"})
	}
	v.mu.Lock()
	had := v.notices != nil
	switch {
	case !on:
		v.notices = nil
	case !had:
		v.notices = &notices{}
	}
	v.mu.Unlock()
	switch {
	case on && !had:
		v.hub.told.join(v)
	case had && !on:
		v.hub.told.leave(v)
	}
	return v.send(deliveriesMessage(on))
}

// wantsDeliveries reads ?deliveries=true.
func wantsDeliveries(query url.Values) (bool, error) {
	if !query.Has("deliveries") {
		return false, nil
	}
	on, err := strconv.ParseBool(query.Get("deliveries"))
	if err != nil {
		return false, schemas.Invalid("deliveries", "must be true or false")
	}
	return on, nil
}
