package output

import (
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"

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
		if err := Write(&out, format, fruits(nil), fruitColumns, itself); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%s\nwant:\n%s", format, err, out.String(), want)
		}
	}
}

func itself(f fruit) any { return f }

func TestNoRowsAreADocumentOfEachFormat(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"table": "NAME  RIPE (UTC)  IN  ONLY HERE\n", "csv": "name,ripe,in\n", "jsonl": "", "json": "[]\n"} {
		var out strings.Builder
		if err := Write(&out, format, func(func(fruit, error) bool) {}, fruitColumns, itself); err != nil || out.String() != want {
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
		if err := Write(out, format, fruits(broken), fruitColumns, itself); !errors.Is(err, broken) {
			t.Errorf("%s: got %v", format, err)
		}
		out.Reset()
		if err := Write(out, format, first, fruitColumns, itself); !errors.Is(err, broken) || out.String() != "" && out.String() != "PAR1" {
			t.Errorf("%s: %v, but %q is written before the first row", format, err, out)
		}
	}
	if err := Write(new(strings.Builder), "xml", fruits(nil), fruitColumns, itself); err == nil {
		t.Error("a format that is not known passes")
	}
}

func TestAJSONDocumentIsWrittenAsItsRowsCome(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	all := NewArray(&out)
	for i := range 100_000 {
		if err := all.Add(i); err != nil {
			t.Fatal(err)
		}
		if all.buffer.Len() >= flushBytes {
			t.Fatalf("%d bytes wait", all.buffer.Len())
		}
	}
	if err := all.Close(); err != nil {
		t.Fatal(err)
	}
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
		if err := encoder.Encode(v); err != nil {
			t.Fatal(err)
		}
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
