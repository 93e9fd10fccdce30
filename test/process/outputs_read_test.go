//go:build unix

package process_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// rowset is what a reader of a format found: columns in order, and rows by column. What is not known is empty, and words
// of a list have bars between them.
type rowset struct {
	columns []string
	rows    []map[string]string
}

func readCSV(t *testing.T, text string) (found rowset) {
	t.Helper()
	all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(all) == 0 {
		t.Fatalf("%v: no CSV with a head:\n%s", err, text)
	}
	found.columns = all[0]
	for _, cells := range all[1:] {
		row := map[string]string{}
		for i, cell := range cells {
			row[all[0][i]] = cell
		}
		found.rows = append(found.rows, row)
	}
	return found
}

func readParquet(t *testing.T, text string) (found rowset) {
	t.Helper()
	file, err := parquet.OpenFile(strings.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatalf("%v: no Parquet file of %d bytes", err, len(text))
	}
	for _, field := range file.Schema().Fields() {
		found.columns = append(found.columns, field.Name())
	}
	leaves := file.Schema().Columns()
	for _, group := range file.RowGroups() {
		rows, buffer := group.Rows(), make([]parquet.Row, 16)
		for {
			n, err := rows.ReadRows(buffer)
			for _, values := range buffer[:n] {
				row := map[string]string{}
				for _, v := range values {
					path := leaves[v.Column()]
					leaf, _ := file.Schema().Lookup(path...)
					if v.RepetitionLevel() > 0 {
						row[path[0]] += "|"
					}
					row[path[0]] += parquetText(v, leaf.Node)
				}
				found.rows = append(found.rows, row)
			}
			if errors.Is(err, io.EOF) {
				break
			}
			must.Do(t, err)
		}
	}
	return found
}

func parquetText(v parquet.Value, of parquet.Node) string {
	logical := ""
	if l := of.Type().LogicalType(); l != nil {
		logical = l.String()
	}
	switch {
	case v.IsNull():
		return ""
	case strings.HasPrefix(logical, "TIMESTAMP("):
		return time.UnixMilli(v.Int64()).UTC().Format("2006-01-02T15:04:05.000Z")
	case logical == "INT(64,false)":
		return strconv.FormatUint(v.Uint64(), 10)
	case v.Kind() == parquet.ByteArray:
		return string(v.ByteArray())
	case v.Kind() == parquet.Double:
		return fmt.Sprint(v.Double())
	}
	return v.String()
}

// decodeJSON reads the values of a text; numbers stay as they are written.
func decodeJSON(t *testing.T, text string) (all []any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.UseNumber()
	for {
		var one any
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		all = append(all, one)
	}
}

// jsonText is what CSV has of a field of an object; fields of an object in it count as its own, too. ok: the object has
// the field, and it is no object itself.
func jsonText(object map[string]any, column string) (text string, ok bool) {
	value, ok := object[column]
	if !ok {
		for name, nested := range object {
			inner, isObject := nested.(map[string]any)
			if !isObject {
				continue
			}
			if text, ok = jsonText(inner, column); !ok {
				text, ok = jsonText(inner, strings.TrimPrefix(column, name+"_"))
			}
			if ok {
				return text, true
			}
		}
		return "", false
	}
	switch v := value.(type) {
	case nil:
		return "", true
	case []any:
		var words []string
		for _, word := range v {
			words = append(words, fmt.Sprint(word))
		}
		return strings.Join(words, "|"), true
	case map[string]any:
		return "", false
	}
	return fmt.Sprint(value), true
}

// sameText reports whether two texts are one value; numbers may be written in two ways.
func sameText(a, b string) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return a == b || errX == nil && errY == nil && x == y
}

// without removes fields of objects, and of the values in them.
func without(value any, names []string) any {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range names {
			delete(v, name)
		}
		for _, inner := range v {
			without(inner, names)
		}
	case []any:
		for _, inner := range v {
			without(inner, names)
		}
	}
	return value
}
