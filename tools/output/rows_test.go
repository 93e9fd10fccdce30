package output

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

type fruit struct {
	Name string         `json:"name"`
	Ripe schemas.Millis `json:"ripe"`
	In   []string       `json:"in"`
}

var fruitColumns = []Column[fruit]{
	{"name", "NAME", func(f fruit) any { return f.Name }},
	{"ripe", "RIPE (UTC)", func(f fruit) any { return f.Ripe }},
	{"in", "IN", func(f fruit) any { return f.In }},
	{"", "ONLY HERE", func(fruit) any { return "" }},
}

func fruits(err error) iter.Seq2[fruit, error] {
	return func(yield func(fruit, error) bool) {
		if yield(fruit{"apple, red", 1000, []string{"a", "b"}}, nil) {
			yield(fruit{Name: "fig"}, err)
		}
	}
}

func TestNoTextOfACSVFileIsAFormulaAndNumbersStayNumbers(t *testing.T) {
	t.Parallel()
	type cell struct {
		Text  string
		Name  *string
		Words []string
		Count int64
		Share float64
		At    schemas.Millis
	}
	columns := []Column[cell]{
		{"text", "TEXT", func(c cell) any { return c.Text }},
		{"name", "NAME", func(c cell) any { return c.Name }},
		{"words", "WORDS", func(c cell) any { return c.Words }},
		{"count", "COUNT", func(c cell) any { return c.Count }},
		{"share", "SHARE", func(c cell) any { return c.Share }},
		{"at", "AT", func(c cell) any { return c.At }},
	}
	for text, want := range map[string]string{
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@a:b.c": "'@a:b.c", "\t=1": "'\t=1", "'tis": "''tis", "a=1": "a=1", "": "", " =1": " =1", "1": "1",
	} {
		var out strings.Builder
		rows := func(yield func(cell, error) bool) { yield(cell{text, &text, []string{text, "x"}, -7, -0.5, -1}, nil) }
		must.Do(t, Write(&out, CSV, rows, columns))
		all, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
		words := want + "|x"
		if text == "" {
			words = "|x"
		}
		if got := []string{want, want, words, "-7", "-0.5", schemas.Millis(-1).String()}; err != nil || len(all) != 2 || !slices.Equal(all[1], got) {
			t.Errorf("%q is written as %q, want %q (%v)", text, all, got, err)
		}
	}
}

func TestTheSameRowsAreWrittenInEachFormat(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"table": "NAME        RIPE (UTC)               IN    ONLY HERE\napple, red  1970-01-01 00:00:01.000  a, b  -\nfig         -                        -     -\n",
		"csv":   "name,ripe,in\n\"apple, red\",1970-01-01T00:00:01.000Z,a|b\nfig,,\n",
		"jsonl": `{"name":"apple, red","ripe":"1970-01-01T00:00:01.000Z","in":["a","b"]}` + "\n" + `{"name":"fig","ripe":null,"in":null}` + "\n",
		"json": `[
  {
    "name": "apple, red",
    "ripe": "1970-01-01T00:00:01.000Z",
    "in": [
      "a",
      "b"
    ]
  },
  {
    "name": "fig",
    "ripe": null,
    "in": null
  }
]
`,
	} {
		var out strings.Builder
		if err := Write(&out, format, fruits(nil), fruitColumns); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%s\nwant:\n%s", format, err, out.String(), want)
		}
	}
}

func TestNoRowsAreADocumentOfEachFormat(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"table": "NAME  RIPE (UTC)  IN  ONLY HERE\n", "csv": "name,ripe,in\n", "jsonl": "", "json": "[]\n"} {
		var out strings.Builder
		if err := Write(&out, format, func(func(fruit, error) bool) {}, fruitColumns); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%s\nwant:\n%s", format, err, out.String(), want)
		}
	}
}

func TestAnErrorOfARowIsTheErrorOfAll(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, format := range []string{"table", "csv", "jsonl", "json", "parquet"} {
		first := func(yield func(fruit, error) bool) { yield(fruit{}, broken) }
		out := new(strings.Builder)
		if err := Write(out, format, fruits(broken), fruitColumns); !errors.Is(err, broken) {
			t.Errorf("%s: got %v", format, err)
		}
		out.Reset()
		if err := Write(out, format, first, fruitColumns); !errors.Is(err, broken) || out.String() != "" && out.String() != "PAR1" {
			t.Errorf("%s: %v, but %q is written before the first row", format, err, out)
		}
	}
	if err := Write(new(strings.Builder), "xml", fruits(nil), fruitColumns); err == nil {
		t.Error("a format that is not known passes")
	}
}

func TestAJSONDocumentIsWrittenAsItsRowsCome(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	all := NewArray(&out)
	for i := range 100_000 {
		must.Do(t, all.Add(i))
		if all.buffer.Len() >= flushBytes {
			t.Fatalf("%d bytes wait", all.buffer.Len())
		}
	}
	must.Do(t, all.Close())
	var read []int
	if err := json.Unmarshal([]byte(out.String()), &read); err != nil || len(read) != 100_000 || read[99_999] != 99_999 {
		t.Errorf("%v, %d elements", err, len(read))
	}
}

func TestAnArrayOfLinesIsTheArrayOfTheirValues(t *testing.T) {
	t.Parallel()
	values := []any{map[string]any{"a": "<&>\u2028é", "b": []any{}, "c": map[string]any{}}, nil, []any{1.5, "x"}}
	var out, lines strings.Builder
	all, encoder := NewArray(&out), json.NewEncoder(&lines)
	for _, v := range values {
		must.Do(t, encoder.Encode(v))
	}
	n, err := all.Write([]byte(lines.String()))
	if err := errors.Join(err, all.Close()); err != nil || n != lines.Len() {
		t.Fatalf("%v, %d of %d bytes", err, n, lines.Len())
	}
	var want strings.Builder
	whole := json.NewEncoder(&want)
	whole.SetIndent("", "  ")
	if err := whole.Encode(values); err != nil || out.String() != want.String() {
		t.Errorf("%v, got:\n%swant:\n%s", err, out.String(), want.String())
	}
}
