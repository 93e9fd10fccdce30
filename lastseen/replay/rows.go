package replay

import (
	"io"
	"unsafe"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// The rows of each kind. Fields and tags declare the columns of all formats: the tag parquet has
// the name and Parquet's encoding; a timestamp is UTC milliseconds; 0 of an optional column and of
// a timestamp is null. The tag json makes a 64-bit number a string in JSON, as in Protobuf's
// mapping: most readers of JSON would round it.

// changeRow is a change in int mode.
type changeRow struct {
	Event string `parquet:"event_id,delta"`
	User  int64  `parquet:"user_id" json:",string"`
	changed
}

// namedChange is a change in text mode. Tenant and name are null if the name is not known, or if the id has two; the
// default tenant is empty. They are not embedded, because parquet-go reads null as empty there.
type namedChange struct {
	Event  string  `parquet:"event_id,delta"`
	Tenant *string `parquet:"tenant,dict"`
	Name   *string `parquet:"name"`
	changed
}

// changed are the other columns of a change.
type changed struct {
	Version    int64    `parquet:"version" json:",string"`
	At         int64    `parquet:"changed_at,delta,timestamp(millisecond)"`
	From       string   `parquet:"from_state,dict"`
	To         string   `parquet:"to_state,dict"`
	Cause      string   `parquet:"cause,dict"`
	Device     int64    `parquet:"device_id,optional"`
	Kinds      []string `parquet:"device_kinds,list,dict"`
	Active     []string `parquet:"active_kinds,list,dict"`
	LastSeen   int64    `parquet:"last_seen_at,optional,timestamp(millisecond)"`
	LastActive int64    `parquet:"last_active_at,optional,timestamp(millisecond)"`
	Visibility string   `parquet:"visibility,dict"`
	Policy     string   `parquet:"policy_id,dict"`
	LeftOut    int64    `parquet:"left_out"`
	Override   document `parquet:"override,optional"`
}

// document is JSON, null if it is empty: a value of JSON lines, and a text in other formats.
type document string

// stateRow is what was in force of a user.
type stateRow struct {
	User int64 `parquet:"user_id,delta" json:",string"`
	inForce
}

type namedState struct {
	Tenant *string `parquet:"tenant,dict"`
	Name   *string `parquet:"name"`
	inForce
}

type inForce struct {
	State      string   `parquet:"state,dict"`
	ChangedAt  int64    `parquet:"changed_at,timestamp(millisecond)"`
	LastSeen   int64    `parquet:"last_seen_at,optional,timestamp(millisecond)"`
	LastActive int64    `parquet:"last_active_at,optional,timestamp(millisecond)"`
	Kinds      []string `parquet:"device_kinds,list,dict"`
	Active     []string `parquet:"active_kinds,list,dict"`
	Visibility string   `parquet:"visibility,dict"`
	Version    int64    `parquet:"version" json:",string"`
	Override   document `parquet:"override,optional"`
}

type sessionRow struct {
	User int64 `parquet:"user_id" json:",string"`
	span
}

type namedSession struct {
	Tenant *string `parquet:"tenant,dict"`
	Name   *string `parquet:"name"`
	span
}

type span struct {
	Kind     string `parquet:"device_kind,dict"`
	Start    int64  `parquet:"started_at,timestamp(millisecond)"`
	End      int64  `parquet:"ended_at,delta,timestamp(millisecond)"`
	Duration int64  `parquet:"duration_ms"`
	Before   bool   `parquet:"started_before"`
	Open     bool   `parquet:"still_open"`
}

// Columns say what rows have of their user.
type Columns int

// The columns. In text mode they are those of names, in int mode the id.
const (
	IDs   Columns = iota // user_id
	Named                // tenant and name
)

// Format is how rows are written.
type Format string

// The formats.
const (
	JSONL   Format = "jsonl"
	CSV     Format = "csv"
	Parquet Format = "parquet"
)

// Writer writes rows. One goroutine may use it.
type Writer[R any] interface {
	// Write takes a row, which may be used again when it returns.
	Write(row *R) error
	// Flush writes the rows that have been taken, as far as the format can.
	Flush() error
	// Close completes what has been written. It does not close the underlying writer.
	Close() error
}

// newWriter writes values R as rows P. set fills a row, whose strings may point into the value.
func newWriter[R, P any](format Format, w io.Writer, set func(*R, *P)) Writer[R] {
	if format == Parquet {
		return newParquetWriter(w, set)
	}
	l := newLineWriter(format, w, set)
	if format == CSV {
		l.head()
	}
	return l
}

// Changes writes changes in a format to w, in int mode.
func Changes(format Format, w io.Writer) Writer[store.Entry] { return ChangesWith(IDs, format, w) }

// ChangesWith writes changes in a format to w.
func ChangesWith(columns Columns, format Format, w io.Writer) Writer[store.Entry] {
	if columns == Named {
		return newWriter(format, w, setNamedChange)
	}
	return newWriter(format, w, setChange)
}

func setChange(e *store.Entry, row *changeRow) {
	*row = changeRow{Event: eventOf(e), User: int64(e.User), changed: changedOf(e)}
}

func setNamedChange(e *store.Entry, row *namedChange) {
	tenant, name := calledAs(&e.Name)
	*row = namedChange{eventOf(e), tenant, name, changedOf(e)}
}

func eventOf(e *store.Entry) string { return unsafe.String(&e.Event[0], len(e.Event)) }

// calledAs points into name.
func calledAs(name *schemas.Name) (tenant, text *string) {
	if name.Text == "" {
		return nil, nil
	}
	return &name.Tenant, &name.Text
}

func changedOf(e *store.Entry) changed {
	return changed{
		Version: int64(e.Version), At: int64(e.At),
		From: schemas.StateWord(e.From), To: schemas.StateWord(e.To), Cause: schemas.CauseWord(e.Cause), Device: int64(e.Device),
		Kinds: kindWords[e.Kinds.Present()], Active: kindWords[e.Kinds.Active()], LastSeen: int64(e.LastSeen),
		LastActive: int64(e.LastActive), Visibility: schemas.VisibilityWord(e.Visibility), Policy: e.Policy, LeftOut: int64(e.LeftOut),
		Override: document(e.Override.Text()),
	}
}

// States writes what AsOf finds in a format to w, in int mode.
func States(format Format, w io.Writer) Writer[store.Entry] { return StatesWith(IDs, format, w) }

// StatesWith writes what AsOf finds in a format to w.
func StatesWith(columns Columns, format Format, w io.Writer) Writer[store.Entry] {
	if columns == Named {
		return newWriter(format, w, func(e *store.Entry, row *namedState) {
			tenant, name := calledAs(&e.Name)
			*row = namedState{tenant, name, inForceOf(e)}
		})
	}
	return newWriter(format, w, func(e *store.Entry, row *stateRow) { *row = stateRow{int64(e.User), inForceOf(e)} })
}

func inForceOf(e *store.Entry) inForce {
	return inForce{
		State: schemas.StateWord(e.To), ChangedAt: int64(e.At), LastSeen: int64(e.LastSeen),
		LastActive: int64(e.LastActive), Kinds: kindWords[e.Kinds.Present()], Active: kindWords[e.Kinds.Active()],
		Visibility: schemas.VisibilityWord(e.Visibility), Version: int64(e.Version), Override: document(e.Override.Text()),
	}
}

// SessionWriter writes sessions in a format to w. They are of what others see, whatever the override.
func SessionWriter(columns Columns, format Format, w io.Writer) Writer[Session] {
	if columns == Named {
		return newWriter(format, w, func(s *Session, row *namedSession) {
			tenant, name := calledAs(&s.Name)
			*row = namedSession{tenant, name, spanOf(s)}
		})
	}
	return newWriter(format, w, func(s *Session, row *sessionRow) { *row = sessionRow{int64(s.User), spanOf(s)} })
}

func spanOf(s *Session) span {
	kind := "any" // the user as such
	if s.Kind != 0 {
		kind = schemas.KindWord(s.Kind)
	}
	return span{Kind: kind, Start: int64(s.Start), End: int64(s.End), Duration: int64(s.End - s.Start), Before: s.Before, Open: s.Open}
}

// kindWords are the words of each set of device kinds.
var kindWords = func() (all [1 << 8][]string) {
	for set := range all {
		all[set] = schemas.KindSet(set).Words()
	}
	return all
}()
