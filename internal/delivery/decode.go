package delivery

import "github.com/stillhere/stillhere/schemas"

// Decode reads a record of presence.deliveries.
func Decode(r *schemas.Record) (Item, error) {
	d, err := schemas.DecodeDelivery(r.Value)
	return Item{Delivery: d, Record: *r}, err
}

// Checked is Decode for deliveries whose transition check accepts.
func Checked(check Check) func(*schemas.Record) (Item, error) {
	return func(r *schemas.Record) (Item, error) {
		item, err := Decode(r)
		if err == nil {
			err = check(schemas.Deliveries, r, item.Delivery.Transition)
		}
		return item, err
	}
}

// Check returns a *schemas.FieldError for a transition of a record of topic that cannot come from the
// detector; see internal/origin.
type Check func(topic schemas.Topic, r *schemas.Record, t *schemas.Transition) error

// Visible returns what a channel of all transitions may know of t; false when that is nothing.
type Visible func(t *schemas.Transition) (*schemas.Transition, bool)

// transitions decodes presence.transitions for a channel of all transitions.
func transitions(check Check, visible Visible) func(*schemas.Record) (Item, error) {
	return func(r *schemas.Record) (Item, error) {
		t, err := schemas.DecodeTransition(r.Value)
		if err == nil {
			err = check(schemas.Transitions, r, t)
		}
		if err != nil {
			return Item{}, err
		}
		item := Item{Record: *r}
		// That the list of denied viewers has changed is nobody else's concern.
		if seen, any := visible(t); any && t.Cause != schemas.AudienceSet {
			item.Delivery = &schemas.Delivery{Transition: seen}
		}
		return item, nil
	}
}
