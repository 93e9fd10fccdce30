package replay

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Session is a span of time during which a user was online, or was online with
// a device of some kind.
type Session struct {
	User schemas.UserID
	// Kind is the device kind; 0 stands for the user as such.
	Kind schemas.DeviceKind
	// Start is included, End is not. Both lie within the range that was asked for.
	Start, End schemas.Millis
	// Before: it had begun before the range, or, of a device kind, may have begun before
	// Start: of a user who has been online since before the archive's log begins, the kinds
	// are known from the first change on. Open: it had not ended at the range's end.
	Before, Open bool
}

// kindSlots is one for the user as such, and one for each device kind.
const kindSlots = len(schemas.Kinds) + 1

// onlineUser is a user who is online.
type onlineUser struct {
	since  [kindSlots]schemas.Millis // 0: not online with this kind
	before [kindSlots]bool
	blind  bool // online with kinds that are not known
}

// sessions folds changes into sessions.
type sessions struct {
	away   bool // counts as online
	online map[schemas.UserID]onlineUser
	emit   func(*Session) error
	one    Session
}

// change takes the next change of a user; before says that it was in force when
// the range began, at the instant at.
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
	}
	return nil
}

func (s *sessions) end(user schemas.UserID, h *onlineUser, kind int, at schemas.Millis, open bool) error {
	s.one = Session{User: user, Kind: schemas.DeviceKind(kind), Start: h.since[kind], End: max(at, h.since[kind]), Before: h.before[kind], Open: open}
	h.since[kind], h.before[kind] = 0, false
	return s.emit(&s.one)
}

// finish ends what is still going on at the end of the range, ordered by user and
// kind.
func (s *sessions) finish(at schemas.Millis) error {
	users := make([]schemas.UserID, 0, len(s.online))
	for user := range s.online {
		users = append(users, user)
	}
	slices.SortFunc(users, func(a, b schemas.UserID) int { return cmp.Compare(a, b) })
	for _, user := range users {
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

// PastArchive is a durable store that knows changes and what was in force.
type PastArchive interface {
	Archive
	Past
}

// Sessions hands to emit the sessions of the users that the options' filter wants
// between its From and To, neither of which may be 0: ordered by their end, user
// and kind, those that go on at the end last. away counts away as online. Without an
// archive, what was in force at the start is known as far as the topic reaches
// back (the options' Cut). From before the archive's log begins the error is a
// *store.ForgottenError. The session is valid until emit returns.
func Sessions(ctx context.Context, log Log, archive PastArchive, o *Options, away bool, emit func(*Session) error) (Summary, error) {
	s := sessions{away: away, online: map[schemas.UserID]onlineUser{}, emit: emit}
	from, to := o.Filter.From, o.Filter.To
	if _, err := AsOf(ctx, log, archive, from-1, o, func(e *store.Entry) error { return s.change(e, from, true) }); err != nil {
		return Summary{}, of(from, err)
	}
	var plain Archive
	if archive != nil {
		plain = archive
	}
	sum, err := Run(ctx, log, plain, o, func(e *store.Entry) error { return s.change(e, e.At, false) })
	if err == nil && archive != nil {
		err = of(from, known(ctx, archive, from-1)) // what was to be read may have been dropped meanwhile
	}
	if err != nil {
		return sum, err
	}
	return sum, s.finish(to)
}

// of is err, which names the start of the range and not the millisecond before it.
func of(from schemas.Millis, err error) error {
	var forgotten *store.ForgottenError
	if errors.As(err, &forgotten) {
		return &store.ForgottenError{Asked: from, Begins: forgotten.Begins}
	}
	return err
}
