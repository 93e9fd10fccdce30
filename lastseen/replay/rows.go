package replay

import (
	"io"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// The columns of each kind of row: once for the formats of text, in the order of the columns,
// once for Parquet.

// changeColumns are those of a change.
func changeColumns(f *fields, e *store.Entry) {
	f.bytes("event_id", e.Event[:])
	f.long("user_id", int64(e.User))
	f.long("version", int64(e.Version))
	f.instant("changed_at", e.At)
	f.word("from_state", stateText.of(int32(e.From)))
	f.word("to_state", stateText.of(int32(e.To)))
	f.word("cause", causeText.of(int32(e.Cause)))
	f.number("device_id", int64(e.Device), true)
	f.kinds("device_kinds", e.Kinds)
	f.instant("last_seen_at", e.LastSeen)
	f.instant("last_active_at", e.LastActive)
	f.word("visibility", seenText.of(int32(e.Visibility)))
	f.text("policy_id", e.Policy)
	f.number("left_out", int64(e.LeftOut), false)
}

// changeRow is a change as Parquet keeps it. Times are UTC milliseconds; 0 of an
// optional column is null.
type changeRow struct {
	Event      string   `parquet:"event_id,delta,uncompressed"` // all but the time in it is random
	User       int64    `parquet:"user_id"`
	Version    int64    `parquet:"version"`
	At         int64    `parquet:"changed_at,delta,timestamp(millisecond)"`
	From       string   `parquet:"from_state,dict"`
	To         string   `parquet:"to_state,dict"`
	Cause      string   `parquet:"cause,dict"`
	Device     int64    `parquet:"device_id,optional"`
	Kinds      []string `parquet:"device_kinds,list,dict"`
	LastSeen   int64    `parquet:"last_seen_at,optional,timestamp(millisecond)"`
	LastActive int64    `parquet:"last_active_at,optional,timestamp(millisecond)"`
	Visibility string   `parquet:"visibility,dict"`
	Policy     string   `parquet:"policy_id,dict"`
	LeftOut    int64    `parquet:"left_out"`
}

// Changes writes changes in a format to w. Close completes the file, but does not
// close w.
func Changes(format Format, w io.Writer) Writer[store.Entry] {
	return newWriter(format, w, changeColumns, func(e *store.Entry, row *changeRow, text *texts) {
		*row = changeRow{
			Event: text.add(e.Event[:]), User: int64(e.User), Version: int64(e.Version), At: int64(e.At), From: stateText.of(int32(e.From)),
			To: stateText.of(int32(e.To)), Cause: causeText.of(int32(e.Cause)), Device: int64(e.Device), Kinds: kindsList[e.Kinds&63],
			LastSeen: int64(e.LastSeen), LastActive: int64(e.LastActive), Visibility: seenText.of(int32(e.Visibility)), Policy: e.Policy,
			LeftOut: int64(e.LeftOut),
		}
	})
}

// stateColumns are those of what was in force of a user.
func stateColumns(f *fields, e *store.Entry) {
	f.long("user_id", int64(e.User))
	f.word("state", stateText.of(int32(e.To)))
	f.instant("changed_at", e.At)
	f.instant("last_seen_at", e.LastSeen)
	f.instant("last_active_at", e.LastActive)
	f.kinds("device_kinds", e.Kinds)
	f.word("visibility", seenText.of(int32(e.Visibility)))
	f.long("version", int64(e.Version))
}

// stateRow is the same as Parquet keeps it.
type stateRow struct {
	User       int64    `parquet:"user_id,delta"`
	State      string   `parquet:"state,dict"`
	ChangedAt  int64    `parquet:"changed_at,timestamp(millisecond)"`
	LastSeen   int64    `parquet:"last_seen_at,optional,timestamp(millisecond)"`
	LastActive int64    `parquet:"last_active_at,optional,timestamp(millisecond)"`
	Kinds      []string `parquet:"device_kinds,list,dict"`
	Visibility string   `parquet:"visibility,dict"`
	Version    int64    `parquet:"version"`
}

// States writes what AsOf finds in a format to w. Close completes the file, but
// does not close w.
func States(format Format, w io.Writer) Writer[store.Entry] {
	return newWriter(format, w, stateColumns, func(e *store.Entry, row *stateRow, _ *texts) {
		*row = stateRow{
			User: int64(e.User), State: stateText.of(int32(e.To)), ChangedAt: int64(e.At), LastSeen: int64(e.LastSeen),
			LastActive: int64(e.LastActive), Kinds: kindsList[e.Kinds&63], Visibility: seenText.of(int32(e.Visibility)), Version: int64(e.Version),
		}
	})
}

// anyKind stands for the user as such among the device kinds.
const anyKind = "any"

func kindOf(k schemas.DeviceKind) string {
	if k == 0 {
		return anyKind
	}
	return schemas.KindWord(k)
}

// sessionColumns are those of a session.
func sessionColumns(f *fields, s *Session) {
	f.long("user_id", int64(s.User))
	f.word("device_kind", kindOf(s.Kind))
	f.instant("started_at", s.Start)
	f.instant("ended_at", s.End)
	f.number("duration_ms", int64(s.End-s.Start), false)
	f.flag("started_before", s.Before)
	f.flag("still_open", s.Open)
}

// sessionRow is a session as Parquet keeps it.
type sessionRow struct {
	User     int64  `parquet:"user_id"`
	Kind     string `parquet:"device_kind,dict"`
	Start    int64  `parquet:"started_at,timestamp(millisecond)"`
	End      int64  `parquet:"ended_at,delta,timestamp(millisecond)"`
	Duration int64  `parquet:"duration_ms"`
	Before   bool   `parquet:"started_before"`
	Open     bool   `parquet:"still_open"`
}

// SessionWriter writes sessions in a format to w. Close completes the file, but does
// not close w.
func SessionWriter(format Format, w io.Writer) Writer[Session] {
	return newWriter(format, w, sessionColumns, func(s *Session, row *sessionRow, _ *texts) {
		*row = sessionRow{User: int64(s.User), Kind: kindOf(s.Kind), Start: int64(s.Start), End: int64(s.End),
			Duration: int64(s.End - s.Start), Before: s.Before, Open: s.Open}
	})
}
