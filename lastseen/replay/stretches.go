package replay

import (
	"io"
	"strconv"

	"github.com/stillhere/stillhere/schemas"
)

// stretchesHead names the columns of a session.
const stretchesHead = "user_id,device_kind,started_at,ended_at,duration_ms,started_before,still_open\n"

// anyKind stands for the user as such among the device kinds.
const anyKind = "any"

func kindOf(k schemas.DeviceKind) string {
	if k == 0 {
		return anyKind
	}
	return schemas.KindWord(k)
}

func appendStretchJSON(dst []byte, c *clock, s *Session) []byte {
	dst = append(dst, `{"user_id":`...)
	dst = appendNumber(dst, int64(s.User))
	dst = append(dst, `,"device_kind":"`...)
	dst = append(dst, kindOf(s.Kind)...)
	dst = append(dst, `","started_at":"`...)
	dst = c.append(dst, s.Start)
	dst = append(dst, `","ended_at":"`...)
	dst = c.append(dst, s.End)
	dst = append(dst, `","duration_ms":`...)
	dst = strconv.AppendInt(dst, int64(s.End-s.Start), 10)
	dst = append(dst, `,"started_before":`...)
	dst = strconv.AppendBool(dst, s.Before)
	dst = append(dst, `,"still_open":`...)
	dst = strconv.AppendBool(dst, s.Open)
	return append(dst, "}\n"...)
}

func appendStretchCSV(dst []byte, c *clock, s *Session) []byte {
	dst = strconv.AppendInt(dst, int64(s.User), 10)
	dst = append(dst, ',')
	dst = append(dst, kindOf(s.Kind)...)
	dst = append(dst, ',')
	dst = c.append(dst, s.Start)
	dst = append(dst, ',')
	dst = c.append(dst, s.End)
	dst = append(dst, ',')
	dst = strconv.AppendInt(dst, int64(s.End-s.Start), 10)
	dst = append(dst, ',')
	dst = strconv.AppendBool(dst, s.Before)
	dst = append(dst, ',')
	dst = strconv.AppendBool(dst, s.Open)
	return append(dst, '\n')
}

// stretchRow is a session as Parquet keeps it.
type stretchRow struct {
	User     int64  `parquet:"user_id"`
	Kind     string `parquet:"device_kind,dict"`
	Start    int64  `parquet:"started_at,timestamp(millisecond)"`
	End      int64  `parquet:"ended_at,delta,timestamp(millisecond)"`
	Duration int64  `parquet:"duration_ms"`
	Before   bool   `parquet:"started_before"`
	Open     bool   `parquet:"still_open"`
}

// Stretches writes sessions in a format to w. Close completes the file, but does
// not close w.
func Stretches(format Format, w io.Writer) Writer[Session] {
	switch format {
	case CSV:
		return newLines(w, stretchesHead, appendStretchCSV)
	case Parquet:
		return newColumns[Session](w, func(s *Session, row *stretchRow, _ *texts) {
			*row = stretchRow{User: int64(s.User), Kind: kindOf(s.Kind), Start: int64(s.Start), End: int64(s.End),
				Duration: int64(s.End - s.Start), Before: s.Before, Open: s.Open}
		})
	default:
		return newLines(w, "", appendStretchJSON)
	}
}
