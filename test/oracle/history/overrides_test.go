package history

import (
	"cmp"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// withOverrides is h with users who ask to be shown as something else, for a while or for good, and change who sees them
// meanwhile. The seed says where.
func withOverrides(h *History, seed uint64) *History {
	s := &source{bytes: ofSeed(seed+6<<40, 1000+64*len(h.Records))}
	users := h.mentioned()
	if len(users) == 0 {
		users = h.users(2)
	}
	newest := map[schemas.UserID]Override{}
	at, top := int64(0), int64(0) // append time and log time after the start
	next := func() Record {
		user := one(s, users...)
		if s.chance(5) {
			if s.chance(2) {
				return Record{Hide: user}
			}
			return Record{Show: user}
		}
		if s.chance(5) {
			return Record{Override: &Override{User: user, LastSeen: one(s, schemas.SeenExactly, schemas.SeenCoarsely, schemas.SeenNever)}}
		}
		if s.chance(5) {
			viewers := func() (of []schemas.UserID) {
				for range one(s, 0, 1, 3) {
					of = append(of, schemas.UserID(900+s.below(12)))
				}
				return of
			}
			return Record{Override: &Override{User: user, Deny: viewers(), Allow: viewers()}}
		}
		o, again := newest[user]
		if !again || !s.chance(4) {
			o = Override{User: user, State: one(s, schemas.SetAway, schemas.SetAway, schemas.Invisible, schemas.Invisible,
				schemas.DoNotDisturb, 0), Until: h.until(s, top), Note: one(s, "", "", "back soon", "at lunch")}
		}
		switch {
		case o.State == 0:
			o.Until, o.Note = 0, ""
		case again && s.chance(8):
			o.Until = h.until(s, top)
		case again && s.chance(8):
			o.Note = "later"
		}
		newest[user] = o
		return Record{Override: &o}
	}
	more := *h
	more.Records = nil
	every := one(s, 8, 3, 25)
	for _, r := range h.Records {
		at += r.After
		top = max(top, at)
		if s.chance(every) {
			between := next()
			between.After, r.After = r.After, 0
			if between.Override != nil && s.chance(8) {
				between.Override.Forward = true
			}
			more.Records = append(more.Records, between)
		}
		more.Records = append(more.Records, r)
	}
	return &more
}

// until is an end of an override, milliseconds after the start, which is set at a log time: none, past, at the instant
// of other limits, or later.
func (h *History) until(s *source, now int64) int64 {
	p := &h.Settings
	present := (p.OnlineTTL + p.OfflineDebounce).Milliseconds()
	var in int64
	switch s.below(8) {
	case 0, 1:
		return 0
	case 2:
		in = one(s, int64(0), 1, -1, -250, -5000, -86_400_000)
	case 3:
		in = one(s, int64(249), 250, 251, 4999, 5000, 5001) + one(s, 0, p.AllowedLateness.Milliseconds())
	case 4:
		in = one(s, present, p.IdleAfter.Milliseconds(), p.FlapInterval.Milliseconds(), 2*p.FlapInterval.Milliseconds(),
			max(present, p.AwayTTL.Milliseconds()), p.ByeDebounce.Milliseconds())
	case 5:
		in = int64(s.below(30_000))
	case 6:
		in = one(s, int64(60_000), 180_000, 900_000, 86_400_000, 25*86_400_000, 60*86_400_000)
	default:
		in = grid * int64(s.below(80))
	}
	return cmp.Or(now+in, 1)
}

// mentioned are the users in the records of h.
func (h *History) mentioned() []schemas.UserID {
	var ids []schemas.UserID
	for i := range h.Records {
		r := &h.Records[i]
		ids = append(ids, r.Hide, r.Show, r.Erase)
		if r.Override != nil {
			ids = append(ids, r.Override.User)
		}
		for _, row := range r.Rows {
			ids = append(ids, row.User)
		}
	}
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id schemas.UserID) bool { return id == 0 })
}
