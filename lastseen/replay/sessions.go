package replay

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Session is a span of time in which a user was online, or was online with a device of one kind.
type Session struct {
	User schemas.UserID
	// Name is the user's name in text mode, if it is known.
	Name schemas.Name
	// Kind is the device kind; 0 stands for the user as such.
	Kind schemas.DeviceKind
	// Start is included, End is not. Both lie within the range.
	Start, End schemas.Millis
	// Before: it began before the range, or, for a device kind, may have begun before Start: the
	// kinds of a user who has been online since before the archive's log begins are known from the
	// first change on.
	Before bool
	// Open: it had not ended at the range's end.
	Open bool
}

// kindSlots is one for the user as such, and one for each device kind.
const kindSlots = len(schemas.Kinds) + 1

// onlineUser is a user who is online.
type onlineUser struct {
	since  [kindSlots]schemas.Millis // 0: not online with this kind
	before [kindSlots]bool
	blind  bool // the kinds are not known
}

// sessions folds changes into sessions.
type sessions struct {
	away   bool // counts as online
	online map[schemas.UserID]onlineUser
	names  map[schemas.UserID]schemas.Name // of those who are online, in text mode
	emit   func(*Session) error
	one    Session
}

// change takes the next change of a user. before: it was in force at the start of the range, the
// instant at.
func (s *sessions) change(e *store.Entry, at schemas.Millis, before bool) error {
	var now [kindSlots]bool
	if e.To == schemas.Online || s.away && e.To == schemas.Away {
		now[0] = true
		for _, kind := range schemas.Kinds {
			now[kind] = e.Kinds&(1<<kind) != 0
		}
	}
	h, known := s.online[e.User]
	if !known && !now[0] {
		return nil
	}
	if e.Name.Text != "" {
		s.names[e.User] = e.Name
	}
	for kind := range now {
		switch {
		case now[kind] && h.since[kind] == 0:
			h.since[kind], h.before[kind] = at, before || h.blind
		case !now[kind] && h.since[kind] != 0:
			if err := s.end(e.User, &h, kind, at, false); err != nil {
				return err
			}
		}
	}
	if h.blind = before && e.Version == 0; now[0] {
		s.online[e.User] = h
	} else {
		delete(s.online, e.User)
		delete(s.names, e.User)
	}
	return nil
}

func (s *sessions) end(user schemas.UserID, h *onlineUser, kind int, at schemas.Millis, open bool) error {
	s.one = Session{User: user, Name: s.names[user], Kind: schemas.DeviceKind(kind), Start: h.since[kind], End: max(at, h.since[kind]), Before: h.before[kind], Open: open}
	h.since[kind], h.before[kind] = 0, false
	return s.emit(&s.one)
}

// finish ends the sessions that are open at the end of the range, ordered by user and kind.
func (s *sessions) finish(at schemas.Millis) error {
	for _, user := range slices.Sorted(maps.Keys(s.online)) {
		h := s.online[user]
		for kind := range h.since {
			if h.since[kind] == 0 {
				continue
			}
			if err := s.end(user, &h, kind, at, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sessions calls emit for the sessions of the users that the options' filter wants, between its From
// and To, neither of which may be 0: ordered by end, user and kind, those that are open at the end
// last. away counts away as online. Without an archive, what was in force at the start is known as
// far as the topic reaches back (the summary's Cut). If From is before the archive's log begins, the
// error is a *store.ForgottenError. The session is valid until emit returns. The summary counts
// changes.
func Sessions(ctx context.Context, log Log, archive Archive, o *Options, away bool, emit func(*Session) error) (Summary, error) {
	s := sessions{away: away, online: map[schemas.UserID]onlineUser{}, names: map[schemas.UserID]schemas.Name{}}
	s.emit = func(one *Session) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return emit(one)
	}
	from, to := o.Filter.From, o.Filter.To
	before, err := AsOf(ctx, log, archive, from-1, o, func(e *store.Entry) error { return s.change(e, from, true) })
	if err != nil {
		return Summary{}, namingStart(from, err)
	}
	sum, err := Run(ctx, log, archive, o, func(e *store.Entry) error { return s.change(e, e.At, false) })
	sum.Cut, sum.Unnamed = sum.Cut || before.Cut, sum.Unnamed+before.Unnamed
	if err == nil && archive != nil {
		sum.Forgotten, err = o.Filter.checkKnown(ctx, archive, from-1) // it may have been dropped meanwhile
		err = namingStart(from, err)
	}
	if err != nil {
		return sum, err
	}
	return sum, s.finish(to)
}

// namingStart makes an error name the start of the range and not the millisecond before it.
func namingStart(from schemas.Millis, err error) error {
	var forgotten *store.ForgottenError
	if errors.As(err, &forgotten) {
		return &store.ForgottenError{Asked: from, Begins: forgotten.Begins, Tenant: forgotten.Tenant}
	}
	return err
}
