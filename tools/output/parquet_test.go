package output

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// sorts is a value of each type that columns have.
type sorts struct {
	User  schemas.UserID
	Text  string
	At    schemas.Millis
	Words []string
	Count *int32
	Share *float64
	Name  *string
	Yes   bool
	Seed  uint64
}

var sortColumns = []Column[sorts]{
	{"user_id", "USER", func(s sorts) any { return s.User }},
	{"text", "TEXT", func(s sorts) any { return s.Text }},
	{"at", "AT", func(s sorts) any { return s.At }},
	{"words", "WORDS", func(s sorts) any { return s.Words }},
	{"count", "COUNT", func(s sorts) any { return s.Count }},
	{"share", "SHARE", func(s sorts) any { return s.Share }},
	{"", "NOT HERE", func(sorts) any { return "" }},
	{"name", "NAME", func(s sorts) any { return s.Name }},
	{"yes", "YES", func(s sorts) any { return s.Yes }},
	{"seed", "SEED", func(s sorts) any { return s.Seed }},
}

// parquetSorts is a row as an independent reader sees it.
type parquetSorts struct {
	User  int64    `parquet:"user_id"`
	Text  string   `parquet:"text"`
	At    *int64   `parquet:"at,optional,timestamp(millisecond)"`
	Words []string `parquet:"words,list"`
	Count *int64   `parquet:"count,optional"`
	Share *float64 `parquet:"share,optional"`
	Name  *string  `parquet:"name,optional"`
	Yes   bool     `parquet:"yes"`
	Seed  uint64   `parquet:"seed"`
}

func of[T any](value T) *T { return &value }

func TestParquetHasTheColumnsWithTheirTypesAndNulls(t *testing.T) {
	t.Parallel()
	rows := []sorts{
		{1 << 62, "a", 1000, []string{"x", "y"}, of(int32(0)), of(0.0), of(""), true, 1 << 63},
		{User: 2},
		{3, "c", -1, []string{"z"}, of(int32(-7)), of(1.5), of("n"), false, 3},
	}
	want := []parquetSorts{
		{1 << 62, "a", of(int64(1000)), []string{"x", "y"}, of(int64(0)), of(0.0), of(""), true, 1 << 63},
		{User: 2},
		{3, "c", of(int64(-1)), []string{"z"}, of(int64(-7)), of(1.5), of("n"), false, 3},
	}
	for n := range len(rows) + 1 {
		var out bytes.Buffer
		w := must.Get(NewWriter(&out, Parquet, sortColumns))(t)
		for _, row := range rows[:n] {
			must.Do(t, w.Write(row))
		}
		must.Do(t, w.Close())
		got, err := parquet.Read[parquetSorts](bytes.NewReader(out.Bytes()), int64(out.Len()))
		for i := range got {
			if len(got[i].Words) == 0 {
				got[i].Words = nil
			}
		}
		if err != nil || len(got) != n || n > 0 && !reflect.DeepEqual(got, want[:n]) {
			t.Errorf("%d rows: %v, %+v", n, err, got)
		}
		file, err := parquet.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil || !parquet.EqualNodes(file.Schema(), parquet.SchemaOf(parquetSorts{})) {
			t.Errorf("%d rows: %v, the schema is %v", n, err, file.Schema())
		}
	}
}

func TestACellIsTheValueAPointerPointsTo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value any
		want  string
	}{
		{of(int32(-7)), "-7"}, {(*int32)(nil), ""}, {1e21, "1e+21"}, {0.1, "0.1"}, {schemas.Millis(1000), "1970-01-01T00:00:01.000Z"},
		{of("a"), "a"}, {[]string(nil), ""}, {true, "true"}, {schemas.UserID(7), "7"}, {uint64(1 << 63), "9223372036854775808"},
	} {
		if got := cell(c.value, inCSV); got != c.want {
			t.Errorf("%v is %q, want %q", c.value, got, c.want)
		}
	}
}

func TestAColumnOfAnotherTypeIsAnError(t *testing.T) {
	t.Parallel()
	for _, value := range []any{nil, map[string]int{}, []int{1}, (*[]int)(nil), (*schemas.Millis)(nil)} {
		columns := []Column[int]{{Name: "c", Value: func(int) any { return value }}}
		if _, err := NewWriter(new(bytes.Buffer), Parquet, columns); err == nil {
			t.Errorf("a column of %T passes", value)
		}
	}
}
