package replay

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// key identifies a change that a file has.
type key struct {
	Event store.EventText
	At    schemas.Millis
}

// readKeys reads what identifies the changes of a complete file, which has the columns.
func readKeys(format Format, columns Columns, name string) (keys []key, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	take := func(event string, at schemas.Millis) error {
		k := key{At: at}
		if copy(k.Event[:], event); at <= 0 || len(event) != len(k.Event) {
			return errors.New("the file has a row that no replay has written: event_id or changed_at is missing")
		}
		keys = append(keys, k)
		return nil
	}
	switch head := headOf(columns); format {
	case Parquet:
		return keys, parquetKeys(file, head, take)
	case CSV:
		return keys, csvKeys(file, head, take)
	default:
		return keys, lineKeys(file, columns, take)
	}
}

// headOf are the names of the columns.
func headOf(columns Columns) []string {
	var head bytes.Buffer
	_ = ChangesWith(columns, CSV, &head).Close() // a buffer takes everything
	return strings.Split(strings.TrimSuffix(head.String(), "\n"), ",")
}

func otherColumns(got, want []string) error {
	return fmt.Errorf("the file has the columns %v and the replay %v", got, want)
}

func parquetKeys(file *os.File, head []string, take func(string, schemas.Millis) error) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	opened, err := parquet.OpenFile(file, info.Size())
	if err != nil {
		return err
	}
	var names []string
	for _, field := range opened.Schema().Fields() {
		names = append(names, field.Name())
	}
	if !slices.Equal(names, head) {
		return otherColumns(names, head)
	}
	rows, err := parquet.Read[struct {
		Event string `parquet:"event_id,delta"`
		At    int64  `parquet:"changed_at,delta,timestamp(millisecond)"`
	}](file, info.Size())
	for i := 0; i < len(rows) && err == nil; i++ {
		err = take(rows[i].Event, schemas.Millis(rows[i].At))
	}
	return err
}

func csvKeys(file io.Reader, head []string, take func(string, schemas.Millis) error) error {
	reader := csv.NewReader(file)
	switch names, err := reader.Read(); {
	case err != nil:
		return err
	case !slices.Equal(names, head):
		return otherColumns(names, head)
	}
	event, instant := slices.Index(head, "event_id"), slices.Index(head, "changed_at")
	for {
		fields, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at, err := time.Parse(time.RFC3339, fields[instant])
		if err != nil {
			return err
		}
		if err := take(fields[event], schemas.MillisOf(at)); err != nil {
			return err
		}
	}
}

func lineKeys(file io.Reader, columns Columns, take func(string, schemas.Millis) error) error {
	for lines := json.NewDecoder(file); ; {
		var row struct {
			Event string          `json:"event_id"`
			At    time.Time       `json:"changed_at"`
			Name  json.RawMessage `json:"name"` // nil: there is none
		}
		switch err := lines.Decode(&row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case (row.Name != nil) != (columns == Named):
			return errors.New("the file has users' names and the replay has not, or the other way round")
		}
		if err := take(row.Event, schemas.MillisOf(row.At)); err != nil {
			return err
		}
	}
}
