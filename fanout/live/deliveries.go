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

// dedupPairs is of how many pairs of recipient and user a node knows what was told
// last, about 60 bytes each. What comes again does so within moments.
const dedupPairs = 100_000

// deliveryViewers are the viewers who want to be told of those they follow.
type deliveryViewers struct {
	offered   bool // by whoever made the server
	delivered *dedup.Cache

	mu sync.RWMutex // never held while anything blocks; after it, a viewer's
	of map[schemas.UserID][]*viewer
}

func (r *deliveryViewers) join(v *viewer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[v.who] = append(r.of[v.who], v)
}

// leave undoes join, if there was one.
func (r *deliveryViewers) leave(v *viewer) {
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

// local is those of users who are told on this node.
func (r *deliveryViewers) local(users []schemas.UserID) []schemas.UserID {
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

// serve tells those of the recipients who are here and may be told, unless they were
// recipients of this version or a newer one. Where it cannot be decided who may be told,
// nobody is, and the error says why. One goroutine calls it.
func (h *hub) deliver(ctx context.Context, d *schemas.Delivery) error {
	t := d.Transition
	local := h.recipients.local(d.Recipients)
	c, visible := fanout.ChangeOf(t)
	if len(local) == 0 || !visible || c.Hides() {
		return nil
	}
	if h.mayBeTold != nil {
		asking, cancel := context.WithTimeout(ctx, h.cfg.ReadTimeout)
		refused, err := h.mayBeTold(asking, t.User, local)
		cancel()
		if err != nil {
			return err
		}
		if local = without(local, refused); len(local) == 0 {
			return nil
		}
	}
	local = h.recipients.delivered.Fresh(t.User, t.Version, local)
	h.recipients.delivered.Add(t.User, t.Version, local)
	st := encoded(deliveryHead, c.After(schemas.Presence{}))
	var idle []*viewer
	h.recipients.mu.RLock()
	for _, u := range local {
		for _, v := range h.recipients.of[u] {
			if v.pushDelivery(t.User, st) {
				idle = append(idle, v)
			}
		}
	}
	h.recipients.mu.RUnlock()
	h.metrics.CountDeliveries(len(local))
	serve(idle)
	return nil
}

// deliveryQueue are the deliveries that wait for one viewer, in order.
type deliveryQueue struct{ items []queuedDelivery }

type queuedDelivery struct {
	user  schemas.UserID
	state *state
}

// push appends. When limit wait already, the newest of each user stay, and of more
// users than fit those that waited longest go. It reports how many were left out.
func (n *deliveryQueue) push(item queuedDelivery, limit int) (dropped int) {
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
		n.items = append([]queuedDelivery(nil), n.items[dropped:]...)
	}
	n.items = append(n.items, item)
	return dropped
}

// pop takes the first; nil when there is none.
func (n *deliveryQueue) pop() *state {
	if n == nil || len(n.items) == 0 {
		return nil
	}
	st := n.items[0].state
	n.items[0] = queuedDelivery{}
	if n.items = n.items[1:]; len(n.items) == 0 {
		n.items = nil
	}
	return st
}

func (n *deliveryQueue) drop() {
	if n != nil {
		n.items = nil
	}
}

// pushDelivery queues a delivery; resting as in pushChange.
func (v *viewer) pushDelivery(user schemas.UserID, st *state) (resting bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended || v.deliveries == nil {
		return false
	}
	v.leftOut(v.deliveries.push(queuedDelivery{user, st}, v.hub.cfg.QueueLength))
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
	case !v.hub.recipients.offered:
		return v.sendError(&schemas.FieldError{Code: "no_deliveries", Reason: "deliveries are not offered here"})
	case v.who == 0:
		return v.sendError(&schemas.FieldError{Code: "unknown_viewer", Reason: "who watches is not known, so there is nobody to tell"})
	}
	v.mu.Lock()
	had := v.deliveries != nil
	switch {
	case !on:
		v.deliveries = nil
	case !had:
		v.deliveries = &deliveryQueue{}
	}
	v.mu.Unlock()
	switch {
	case on && !had:
		v.hub.recipients.join(v)
	case had && !on:
		v.hub.recipients.leave(v)
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
