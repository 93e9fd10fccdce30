package live

import (
	"context"
	"net/url"
	"slices"
	"sync"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/schemas"
)

// dedupPairs is the size of a node's dedup cache, about 60 bytes a pair. Duplicates come within
// moments.
const dedupPairs = 100_000

// deliveryViewers are the viewers who want deliveries about the users they follow.
type deliveryViewers struct {
	delivered *delivery.Delivered

	mu sync.RWMutex // never held while anything blocks; after it, a viewer's
	of map[schemas.UserID][]*viewer
}

func newDeliveryViewers() deliveryViewers {
	return deliveryViewers{of: map[schemas.UserID][]*viewer{}, delivered: delivery.NewDelivered(dedupPairs)}
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

// local returns those of users who get deliveries on this node.
func (r *deliveryViewers) local(users []schemas.UserID) (local []schemas.UserID) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.of) == 0 {
		return nil
	}
	for _, u := range users {
		if _, ok := r.of[u]; ok {
			local = append(local, u)
		}
	}
	return local
}

// deliver queues d for its recipients on this node who may receive it and have not received this
// version or a newer one. A viewer whose name is not the recipient's is another user with the same id, and gets
// nothing. If MayReceive fails, it queues nothing and returns the error. One goroutine
// calls it.
func (h *hub) deliver(ctx context.Context, d *schemas.Delivery) error {
	t := d.Transition
	local := h.recipients.local(d.Recipients)
	c, visible := fanout.ChangeOf(t)
	if len(local) == 0 || !visible || c.Hides() {
		return nil
	}
	if h.MayReceive != nil {
		asking, cancel := context.WithTimeout(ctx, h.cfg.ReadTimeout)
		refused, err := h.MayReceive(asking, t.User, local)
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
	p := c.After(schemas.Presence{})
	name := h.Users.Called(t.User, t.Name)
	p.Name = &name // none: null
	st := encoded(deliveryHead, p)
	var resting []*viewer
	h.recipients.mu.RLock()
	for _, u := range local {
		for _, v := range h.recipients.of[u] {
			if h.isRecipient(d, u, v) && v.pushDelivery(t.User, st) {
				resting = append(resting, v)
			}
		}
	}
	h.recipients.mu.RUnlock()
	h.Metrics.CountDeliveries(len(local))
	serve(resting)
	return nil
}

// isRecipient reports whether d names viewer v as its recipient user. Recipients are of the tenant of the
// user who has changed.
func (h *hub) isRecipient(d *schemas.Delivery, user schemas.UserID, v *viewer) bool {
	var given, own schemas.Name
	if i := slices.Index(d.Recipients, user); i < len(d.Names) {
		given = schemas.Name{Tenant: d.Transition.Name.Tenant, Text: d.Names[i]}
	}
	if v.name != nil {
		own = *v.name
	}
	return h.Users.Same(own, given)
}

// deliveryQueue holds the deliveries that wait for one viewer, in order. nil is empty.
type deliveryQueue struct{ items []queuedDelivery }

type queuedDelivery struct {
	user  schemas.UserID
	state *state
}

// push appends item. If limit deliveries wait already, the queue keeps the newest of each user; if
// these do not fit either, it drops those that waited longest. push returns how many were dropped.
func (n *deliveryQueue) push(item queuedDelivery, limit int) (dropped int) {
	if len(n.items) >= limit {
		seen := map[schemas.UserID]struct{}{item.user: {}}
		begin := len(n.items)
		for i := len(n.items) - 1; i >= 0; i-- {
			if _, again := seen[n.items[i].user]; !again {
				seen[n.items[i].user] = struct{}{}
				begin--
				n.items[begin] = n.items[i]
			}
		}
		dropped = max(begin, len(n.items)+1-limit)
		n.items = append([]queuedDelivery(nil), n.items[dropped:]...)
	}
	n.items = append(n.items, item)
	return dropped
}

// pop removes the first delivery and those before it of users who deny the viewer by now; nil when there is none.
// Holds the viewer's mutex.
func (n *deliveryQueue) pop(subs map[schemas.UserID]*sub) *state {
	for n != nil && len(n.items) > 0 {
		item := n.items[0]
		n.items[0] = queuedDelivery{}
		if n.items = n.items[1:]; len(n.items) == 0 {
			n.items = nil
		}
		if s := subs[item.user]; s == nil || !s.denied || s.stale {
			return item.state
		}
	}
	return nil
}

func (n *deliveryQueue) drop() {
	if n != nil {
		n.items = nil
	}
}

// wantDeliveries switches deliveries on or off and confirms it.
func (v *viewer) wantDeliveries(on bool) error {
	switch {
	case v.hub.Deliveries == nil:
		return v.sendError(&schemas.FieldError{Code: "no_deliveries", Reason: "deliveries are not offered here"})
	case v.who == 0:
		return v.sendError(&schemas.FieldError{Code: "unknown_viewer",
			Reason: "who watches is not known, so there is nobody to tell"})
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
	on := query.Get("deliveries") == "true"
	if !on && query.Get("deliveries") != "false" {
		return false, schemas.Invalid("deliveries", "must be true or false")
	}
	return on, nil
}
