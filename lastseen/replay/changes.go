package replay

import (
	"io"
	"strconv"

	"github.com/stillhere/stillhere/lastseen/store"
)

// changesHead names the columns of a change, in every format.
const changesHead = "event_id,user_id,version,changed_at,from_state,to_state,cause,device_id,device_kinds,last_seen_at,last_active_at,visibility,policy_id,left_out\n"

// appendChangeJSON appends the change as a line of JSON.
func appendChangeJSON(dst []byte, c *clock, e *store.Entry) []byte {
	dst = append(dst, `{"event_id":"`...)
	dst = append(dst, e.Event[:]...)
	dst = append(dst, `","user_id":`...)
	dst = appendNumber(dst, int64(e.User))
	dst = append(dst, `,"version":`...)
	dst = appendNumber(dst, int64(e.Version))
	dst = append(dst, `,"changed_at":"`...)
	dst = c.append(dst, e.At)
	dst = append(dst, `","from_state":"`...)
	dst = append(dst, stateText.of(int32(e.From))...)
	dst = append(dst, `","to_state":"`...)
	dst = append(dst, stateText.of(int32(e.To))...)
	dst = append(dst, `","cause":"`...)
	dst = append(dst, causeText.of(int32(e.Cause))...)
	dst = append(dst, `","device_id":`...)
	if e.Device == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendUint(dst, uint64(e.Device), 10)
	}
	dst = append(dst, `,"device_kinds":`...)
	dst = append(dst, kindsJSON[e.Kinds&63]...)
	dst = append(dst, `,"last_seen_at":`...)
	dst = c.appendJSON(dst, e.LastSeen)
	dst = append(dst, `,"last_active_at":`...)
	dst = c.appendJSON(dst, e.LastActive)
	dst = append(dst, `,"visibility":"`...)
	dst = append(dst, seenText.of(int32(e.Visibility))...)
	dst = append(dst, `","policy_id":`...)
	dst = appendJSONText(dst, e.Policy)
	dst = append(dst, `,"left_out":`...)
	dst = strconv.AppendUint(dst, uint64(e.LeftOut), 10)
	return append(dst, "}\n"...)
}

// appendChangeCSV appends the change as a line of CSV. Never and no device are
// empty, device kinds are separated by bars.
func appendChangeCSV(dst []byte, c *clock, e *store.Entry) []byte {
	dst = append(dst, e.Event[:]...)
	dst = append(dst, ',')
	dst = strconv.AppendInt(dst, int64(e.User), 10)
	dst = append(dst, ',')
	dst = strconv.AppendInt(dst, int64(e.Version), 10)
	dst = append(dst, ',')
	dst = c.append(dst, e.At)
	dst = append(dst, ',')
	dst = append(dst, stateText.of(int32(e.From))...)
	dst = append(dst, ',')
	dst = append(dst, stateText.of(int32(e.To))...)
	dst = append(dst, ',')
	dst = append(dst, causeText.of(int32(e.Cause))...)
	dst = append(dst, ',')
	if e.Device != 0 {
		dst = strconv.AppendUint(dst, uint64(e.Device), 10)
	}
	dst = append(dst, ',')
	dst = append(dst, kindsText[e.Kinds&63]...)
	dst = append(dst, ',')
	dst = c.appendCSV(dst, e.LastSeen)
	dst = append(dst, ',')
	dst = c.appendCSV(dst, e.LastActive)
	dst = append(dst, ',')
	dst = append(dst, seenText.of(int32(e.Visibility))...)
	dst = append(dst, ',')
	dst = appendCSVText(dst, e.Policy)
	dst = append(dst, ',')
	dst = strconv.AppendUint(dst, uint64(e.LeftOut), 10)
	return append(dst, '\n')
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

var kindsList = listKinds()

// set makes row of the change. What it points to stays for as long as events does.
func (row *changeRow) set(e *store.Entry, event string) {
	*row = changeRow{
		Event: event, User: int64(e.User), Version: int64(e.Version), At: int64(e.At), From: stateText.of(int32(e.From)),
		To: stateText.of(int32(e.To)), Cause: causeText.of(int32(e.Cause)), Device: int64(e.Device), Kinds: kindsList[e.Kinds&63],
		LastSeen: int64(e.LastSeen), LastActive: int64(e.LastActive), Visibility: seenText.of(int32(e.Visibility)), Policy: e.Policy,
		LeftOut: int64(e.LeftOut),
	}
}

// Changes writes changes in a format to w. Close completes the file, but does not
// close w.
func Changes(format Format, w io.Writer) Writer[store.Entry] {
	switch format {
	case CSV:
		return newLines(w, changesHead, appendChangeCSV)
	case Parquet:
		return newColumns[store.Entry](w, func(e *store.Entry, row *changeRow, text *texts) { row.set(e, text.add(e.Event[:])) })
	default:
		return newLines(w, "", appendChangeJSON)
	}
}
