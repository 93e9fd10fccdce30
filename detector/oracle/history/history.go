package history

import (
	"encoding/json"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
)

// start is the append time before the first record.
const start = schemas.Millis(1_763_700_000_000)

// History is a log of one partition and the settings to judge it by.
type History struct {
	Settings              liveness.Settings
	Partition, Partitions int32
	Records               []Record
}

// Record is one record of the log, as people read it.
type Record struct {
	// After is its append time less that of the record before, milliseconds.
	After    int64          `json:",omitempty"`
	Restart  bool           `json:",omitempty"` // the detector is restarted before it; see Restarted
	Garbage  bool           `json:",omitempty"` // cannot be decoded
	Tick     bool           `json:",omitempty"`
	Gateway  string         `json:",omitempty"`
	Epoch    int64          `json:",omitempty"`
	Sequence uint64         `json:",omitempty"`
	Draining bool           `json:",omitempty"`
	Hide     schemas.UserID `json:",omitempty"` // who hides
	Show     schemas.UserID `json:",omitempty"` // who shows again
	Rows     []Row          `json:",omitempty"`
}

// Row is a schemas.Beat with its times in plain milliseconds.
type Row struct {
	User   schemas.UserID
	Device schemas.DeviceID
	Kind   schemas.DeviceKind
	Bye    bool  `json:",omitempty"`
	Age    int64 `json:",omitempty"`
	Idle   int64 `json:",omitempty"`
}

// Log is the history as Kafka would hand it over.
func (h *History) Log() []schemas.Record {
	records := make([]schemas.Record, len(h.Records))
	at := start
	for i := range h.Records {
		at += schemas.Millis(h.Records[i].After)
		records[i] = schemas.Record{Partition: h.Partition, Offset: int64(i), Time: at, Value: h.Records[i].value()}
	}
	return records
}

func (r *Record) value() []byte {
	switch {
	case r.Garbage:
		return []byte{0xff}
	case r.Tick:
		return schemas.AppendTick(nil)
	case r.Hide != 0:
		return schemas.AppendVisibility(nil, r.Hide, schemas.Nobody)
	case r.Show != 0:
		return schemas.AppendVisibility(nil, r.Show, schemas.Everyone)
	}
	head := schemas.FrameHead{Gateway: schemas.GatewayID(r.Gateway), GatewayEpoch: schemas.Millis(r.Epoch),
		Sequence: r.Sequence, Draining: r.Draining}
	beats := make([]schemas.Beat, len(r.Rows))
	for i, row := range r.Rows {
		beats[i] = schemas.Beat{User: row.User, Device: row.Device, Kind: row.Kind, Bye: row.Bye,
			Age: schemas.Millis(row.Age), Idle: schemas.Millis(row.Idle)}
	}
	return schemas.AppendFrame(nil, head, beats)
}

// String is the history as JSON, one record a line; Parse reads it back.
func (h *History) String() string {
	settings, err := json.Marshal(h.Settings)
	if err != nil {
		return err.Error()
	}
	text := `{"Settings":` + string(settings) + `,"Partitions":` + itoa(int64(h.Partitions)) + `,"Partition":` + itoa(int64(h.Partition)) + `,"Records":[`
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
	var h History
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, err
	}
	return &h, nil
}
