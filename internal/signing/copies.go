package signing

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// MaxCounted bounds the frames that a Checker remembers. The oldest are forgotten first.
const MaxCounted = 1 << 16

// Counted is a frame that changed something and counted.
type Counted struct {
	MAC   string
	Until schemas.Millis // after which a copy is refused for its sealing time
}

// Counted are the remembered frames, in the order of their log. They are state, like what the frames changed.
func (c *Checker) Counted() []Counted { return c.counted }

// Remember takes what Counted returned; false: no Checker remembers such frames.
func (c *Checker) Remember(counted []Counted) bool {
	c.counted, c.copies = nil, map[string]bool{}
	for _, f := range counted {
		if len(f.MAC) != schemas.MACSize || c.copies[f.MAC] || len(c.counted) == MaxCounted {
			return false
		}
		c.counted, c.copies[f.MAC] = append(c.counted, f), true
	}
	return true
}

// isRemembered reports whether a copy of the frame could do harm: show a user who has hidden since, erase one who has
// come back, bring an old policy into force. A hide always counts: two that are sealed in one millisecond have one MAC,
// and the second one, after a show, must hide the user.
func isRemembered(f *schemas.Frame) bool {
	shows := f.VisibilityUser != 0 && f.Visibility == schemas.Everyone
	if o := f.Override; o != nil {
		shows = o.State != schemas.Invisible || o.Until != 0
	}
	_, removed := f.Denies.Changes()
	shows = shows || f.LastSeen != 0 && f.LastSeen != schemas.SeenNever || len(removed) > 0
	return shows || f.ErasedUser != 0 || f.Policy != nil || f.TenantPolicy != nil
}

// Count remembers a frame that Check took, appended at an instant, and returns why a copy of one that is remembered does
// not count, a *schemas.FieldError.
func (c *Checker) Count(f *schemas.Frame, at schemas.Millis) error {
	if c == nil || c.keys == nil || len(f.MAC) == 0 || !isRemembered(f) {
		return nil
	}
	if c.copies[string(f.MAC)] {
		return errCopied
	}
	old := 0
	// Append times may go back when the leader changes, hence a Tolerance more.
	for old < len(c.counted) && (c.counted[old].Until+Tolerance < at || len(c.counted)-old >= MaxCounted) {
		delete(c.copies, c.counted[old].MAC)
		old++
	}
	c.counted = slices.Delete(c.counted, 0, old)
	if c.copies == nil {
		c.copies = map[string]bool{}
	}
	mac := string(f.MAC)
	c.counted, c.copies[mac] = append(c.counted, Counted{mac, f.SealedAt + Tolerance}), true
	return nil
}

var errCopied = &schemas.FieldError{Code: "copied", Field: "mac", Reason: "is that of a frame that counted already"}
