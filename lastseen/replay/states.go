package replay

import (
	"io"
	"strconv"

	"github.com/stillhere/stillhere/lastseen/store"
)

// statesHead names the columns of what was in force of a user.
const statesHead = "user_id,state,changed_at,last_seen_at,last_active_at,device_kinds,visibility,version\n"

func appendStateJSON(dst []byte, c *clock, e *store.Entry) []byte {
	dst = append(dst, `{"user_id":`...)
	dst = appendNumber(dst, int64(e.User))
	dst = append(dst, `,"state":"`...)
	dst = append(dst, stateText.of(int32(e.To))...)
	dst = append(dst, `","changed_at":"`...)
	dst = c.append(dst, e.At)
	dst = append(dst, `","last_seen_at":`...)
	dst = c.appendJSON(dst, e.LastSeen)
	dst = append(dst, `,"last_active_at":`...)
	dst = c.appendJSON(dst, e.LastActive)
	dst = append(dst, `,"device_kinds":`...)
	dst = append(dst, kindsJSON[e.Kinds&63]...)
	dst = append(dst, `,"visibility":"`...)
	dst = append(dst, seenText.of(int32(e.Visibility))...)
	dst = append(dst, `","version":`...)
	dst = appendNumber(dst, int64(e.Version))
	return append(dst, "}\n"...)
}

func appendStateCSV(dst []byte, c *clock, e *store.Entry) []byte {
	dst = strconv.AppendInt(dst, int64(e.User), 10)
	dst = append(dst, ',')
	dst = append(dst, stateText.of(int32(e.To))...)
	dst = append(dst, ',')
	dst = c.append(dst, e.At)
	dst = append(dst, ',')
	dst = c.appendCSV(dst, e.LastSeen)
	dst = append(dst, ',')
	dst = c.appendCSV(dst, e.LastActive)
	dst = append(dst, ',')
	dst = append(dst, kindsText[e.Kinds&63]...)
	dst = append(dst, ',')
	dst = append(dst, seenText.of(int32(e.Visibility))...)
	dst = append(dst, ',')
	dst = strconv.AppendInt(dst, int64(e.Version), 10)
	return append(dst, '\n')
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
	switch format {
	case CSV:
		return newLines(w, statesHead, appendStateCSV)
	case Parquet:
		return newColumns[store.Entry](w, func(e *store.Entry, row *stateRow, _ *texts) {
			*row = stateRow{
				User: int64(e.User), State: stateText.of(int32(e.To)), ChangedAt: int64(e.At), LastSeen: int64(e.LastSeen),
				LastActive: int64(e.LastActive), Kinds: kindsList[e.Kinds&63], Visibility: seenText.of(int32(e.Visibility)), Version: int64(e.Version),
			}
		})
	default:
		return newLines(w, "", appendStateJSON)
	}
}
