package history

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
)

// usualStart is the append time before the first record of most histories.
const usualStart = schemas.Millis(1_763_700_000_000)

// erasedUntil is until when statuses name an erasure.
const erasedUntil = usualStart + 60_000

// textErasedUntil is the same with --ids text: later than any restart, as that of every erasure is, since a restart
// finds in the statuses which erasures count.
const textErasedUntil = schemas.Millis(4_000_000_000_000)

// History is a log of one partition and the settings to judge it by.
type History struct {
	Settings              liveness.Settings
	Partition, Partitions int32
	// Start is the append time before the first record; 0: usualStart. Offset is that of the first
	// record.
	Start  int64 `json:",omitempty"`
	Offset int64 `json:",omitempty"`
	// Text: users have names, and their ids are those of the names under a key of the tests.
	Text bool `json:",omitempty"`
	// MostDue is that of oracle.Log.
	MostDue int `json:",omitempty"`
	Records []Record
}

func (h *History) start() schemas.Millis {
	if h.Start == 0 {
		return usualStart
	}
	return schemas.Millis(h.Start)
}

// Record is one record of the log in a readable form.
type Record struct {
	// After is its append time less that of the record before, milliseconds.
	After   int64              `json:",omitempty"`
	Restart bool               `json:",omitempty"` // the detector is restarted before it; see Restarted
	Lose    Lost               `json:",omitempty"` // the detector is restarted before it, and something is lost
	Keep    int                `json:",omitempty"` // how many records are left; see Lost
	Garbage bool               `json:",omitempty"` // cannot be decoded
	Tick    bool               `json:",omitempty"`
	Behind  bool               `json:",omitempty"` // of a tick
	Policy  *liveness.Settings `json:",omitempty"` // comes into force
	// Tenant's policy comes into force.
	Tenant   *schemas.TenantPolicy `json:",omitempty"`
	Gateway  string                `json:",omitempty"`
	Epoch    int64                 `json:",omitempty"` // milliseconds after the start
	Sequence uint64                `json:",omitempty"`
	Draining bool                  `json:",omitempty"`
	Forward  bool                  `json:",omitempty"` // the frame was forwarded by the detector of another partition
	Late     int64                 `json:",omitempty"` // how long before the frame its beats had been written there
	Begins   bool                  `json:",omitempty"` // a replacement
	Ends     bool                  `json:",omitempty"`
	Leased   bool                  `json:",omitempty"` // by the owner of the partition, and Draining, and nothing else
	// LeaseEnded ends the lease: the gateway was heard so long before, milliseconds.
	LeaseEnded int64          `json:",omitempty"`
	Hide       schemas.UserID `json:",omitempty"` // is hidden by it
	Show       schemas.UserID `json:",omitempty"` // is shown again
	Erase      schemas.UserID `json:",omitempty"` // is erased
	Override   *Override      `json:",omitempty"`
	Name       *schemas.Name  `json:",omitempty"` // of who is hidden, shown, erased or has an override
	Rows       []Row          `json:",omitempty"`
}

// Override is what a user asks to be shown as from a record on, or with LastSeen what others learn of when the user was
// last here, or with one of the last two whom the user denies.
type Override struct {
	User  schemas.UserID
	State schemas.OverrideState `json:",omitempty"` // 0: none any more
	// Until is its end, milliseconds after the start; 0: it has none.
	Until    int64            `json:",omitempty"`
	Note     string           `json:",omitempty"`
	LastSeen schemas.LastSeen `json:",omitempty"`
	Deny     []schemas.UserID `json:",omitempty"`
	Allow    []schemas.UserID `json:",omitempty"` // with Deny: whom the user denies, and does not deny any more
	Forward  bool             `json:",omitempty"` // by the detector of another partition
}

// Lost is what a restart does not find.
type Lost string

const (
	// LostLog: all but the last Keep records; with a negative Keep also the next records.
	LostLog Lost = "log"
	// LostCommit: the committed offset, and all but the last Keep records.
	LostCommit Lost = "commit"
	// LostTopic: the whole log. Offsets begin at 0 again.
	LostTopic Lost = "topic"
	// LostTail: the last Keep records. Their offsets are used again.
	LostTail Lost = "tail"
)

// Row is a schemas.Beat with its times in plain milliseconds.
type Row struct {
	User   schemas.UserID
	Device schemas.DeviceID
	Kind   schemas.DeviceKind
	Bye    bool  `json:",omitempty"`
	Age    int64 `json:",omitempty"`
	Idle   int64 `json:",omitempty"`
	// Connection is what the row is about, if its frame has a gateway. Lost says that it broke.
	Connection schemas.ConnectionID `json:",omitempty"`
	Lost       bool                 `json:",omitempty"`
	// Name is that of the user, in text mode; nil: the frame does not say it.
	Name *schemas.Name `json:",omitempty"`
}

// users are those of histories with names.
var users = identity.Named(identity.Key{1, 2, 3})

// Log is the history as the records of a partition.
func (h *History) Log() oracle.Log {
	l := oracle.Log{Policy: h.Settings, Partition: h.Partition, Partitions: h.Partitions, LogEpoch: 1, MostDue: h.MostDue}
	if h.Text {
		l.Users = users
	}
	at, offset := h.start(), h.Offset
	var kept []int // the records that exist
	unseen := 0    // records before this one disappeared before they were handled
	for i := range h.Records {
		r := &h.Records[i]
		if r.Lose != "" && i > 0 && i >= unseen {
			kept, offset = lose(&l, r, i, kept, offset)
			if n := len(l.Losses); n > 0 && l.Losses[n-1].Before == i {
				unseen = i + l.Losses[n-1].Skip
			}
		}
		at += schemas.Millis(r.After)
		l.Records = append(l.Records, schemas.Record{Partition: h.Partition, Offset: offset, Time: at,
			Value: r.value(at, h.start(), h.Text)})
		if i >= unseen {
			kept = append(kept, i)
		}
		offset++
	}
	return l
}

// lose adds the loss before record i to l. It returns which records are left, and the
// offset of record i.
func lose(l *oracle.Log, r *Record, i int, kept []int, offset int64) ([]int, int64) {
	loss := oracle.Loss{Before: i, Commit: r.Lose == LostCommit}
	switch r.Lose {
	case LostLog, LostCommit:
		if r.Lose == LostLog && r.Keep >= len(kept) {
			return kept, offset // nothing is lost
		}
		kept = kept[max(0, len(kept)-max(0, r.Keep)):]
		if r.Lose == LostLog {
			loss.Skip = max(0, -r.Keep)
		}
	case LostTopic:
		kept, offset, loss.Epoch = nil, 0, true
	case LostTail:
		cut := min(r.Keep, len(kept)-1)
		if cut < 1 {
			return kept, offset // nothing to cut
		}
		kept, loss.Epoch = kept[:len(kept)-cut], true
		offset = l.Records[kept[len(kept)-1]].Offset + 1
	}
	loss.Kept = slices.Clone(kept)
	l.Losses = append(l.Losses, loss)
	return kept, offset
}

// value is the frame of a record that is appended at an instant. Epochs count from start.
func (r *Record) value(at, start schemas.Millis, text bool) []byte {
	switch {
	case r.Garbage:
		return []byte{0xff}
	case r.Tick:
		if r.Behind {
			return schemas.AppendTickBehind(nil)
		}
		return schemas.AppendTick(nil)
	case r.Policy != nil:
		return schemas.AppendPolicy(nil, *r.Policy)
	case r.Tenant != nil:
		return schemas.AppendTenantPolicy(nil, *r.Tenant)
	case r.Hide != 0:
		return visibility(r.Hide, schemas.Nobody, r.Name)
	case r.Show != 0:
		return visibility(r.Show, schemas.Everyone, r.Name)
	case r.Override != nil:
		return r.Override.value(start, r.Name)
	}
	if r.Erase != 0 {
		name, until := schemas.Name{}, erasedUntil
		if r.Name != nil {
			name = *r.Name
		}
		if text {
			until = textErasedUntil
		}
		return schemas.AppendErasure(nil, r.Erase, name, until, until, r.Forward)
	}
	head := schemas.FrameHead{Gateway: schemas.GatewayID(r.Gateway), Sequence: r.Sequence, Draining: r.Draining,
		Forwarded: r.Forward, Begins: r.Begins, Ends: r.Ends}
	if r.Leased || r.LeaseEnded != 0 {
		head = schemas.FrameHead{Gateway: head.Gateway, Draining: r.Draining && r.Leased, Leased: r.Leased,
			LeaseEnded: schemas.Millis(r.LeaseEnded)}
	}
	if r.Gateway != "" {
		head.GatewayEpoch = start + schemas.Millis(r.Epoch)
	}
	if r.Late != 0 {
		head.ForwardedAt = max(1, at-schemas.Millis(r.Late))
	}
	beats := make([]schemas.Beat, len(r.Rows))
	for i, row := range r.Rows {
		beats[i] = schemas.Beat{User: row.User, Device: row.Device, Kind: row.Kind, Bye: row.Bye,
			Age: schemas.Millis(row.Age), Idle: schemas.Millis(row.Idle), Connection: row.Connection, Lost: row.Lost}
	}
	value := schemas.AppendFrame(nil, head, beats)
	for i, row := range r.Rows {
		if row.Name != nil {
			value = schemas.AppendNamedRow(value, i, *row.Name)
		}
	}
	return value
}

func visibility(user schemas.UserID, v schemas.Visibility, name *schemas.Name) []byte {
	if name == nil {
		return schemas.AppendVisibility(nil, user, v)
	}
	return schemas.AppendNamedVisibility(nil, user, v, *name)
}

func (o *Override) value(start schemas.Millis, name *schemas.Name) []byte {
	asked := schemas.Override{State: o.State, Note: o.Note}
	if o.Until != 0 {
		asked.Until = start + schemas.Millis(o.Until)
	}
	f := schemas.Frame{VisibilityUser: o.User, Override: &asked}
	denies, _ := schemas.NewDenies("", o.User, o.Deny, o.Allow) // a history may have what decoders refuse
	switch {
	case denies != "":
		f.Override, f.Denies = nil, denies
	case o.LastSeen != 0:
		f.Override, f.LastSeen = nil, o.LastSeen
	}
	if name != nil {
		f.VisibilityName = *name
	}
	switch {
	case o.Forward:
		return schemas.AppendForwardedVisibility(nil, &f)
	case denies != "":
		return schemas.AppendDenies(nil, f.VisibilityUser, denies, f.VisibilityName)
	case o.LastSeen != 0:
		return schemas.AppendLastSeen(nil, f.VisibilityUser, o.LastSeen, f.VisibilityName)
	}
	return schemas.AppendOverride(nil, f.VisibilityUser, asked, f.VisibilityName)
}

// String is the history as JSON, one record a line; Parse reads it back.
func (h *History) String() string {
	settings, err := json.Marshal(h.Settings)
	if err != nil {
		return err.Error()
	}
	text := `{"Settings":` + string(settings) + `,"Start":` + itoa(h.Start) + `,"Offset":` + itoa(h.Offset) +
		`,"Partitions":` + itoa(int64(h.Partitions)) + `,"Partition":` + itoa(int64(h.Partition)) + `,"Text":` + strconv.FormatBool(h.Text) +
		`,"MostDue":` + strconv.Itoa(h.MostDue) + `,"Records":[`
	for i := range h.Records {
		record, err := json.Marshal(&h.Records[i])
		if err != nil {
			return err.Error()
		}
		if i > 0 {
			text += ","
		}
		text += "\n" + string(record)
	}
	return text + "\n]}\n"
}

// Parse reads what String writes.
func Parse(text []byte) (*History, error) {
	h := History{Settings: liveness.Defaults()} // for settings that came later
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, err
	}
	return &h, nil
}
