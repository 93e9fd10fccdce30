package output

import (
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
		"json":  "[\n  {\n    \"name\": \"apple, red\",",
	} {
		var out strings.Builder
		err := Write(&out, format, fruits(nil), fruitColumns, func(f fruit) any { return f })
		if err != nil || !strings.HasPrefix(out.String(), want) || format != "json" && out.String() != want {
			t.Errorf("%s: %v\n%s\nwant:\n%s", format, err, out.String(), want)
		}
	}
}

func TestAnErrorOfARowIsTheErrorOfAll(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	if err := Write(new(strings.Builder), "csv", fruits(broken), fruitColumns, func(f fruit) any { return f }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if err := Write(new(strings.Builder), "parquet", fruits(nil), fruitColumns, func(f fruit) any { return f }); err == nil {
		t.Error("a format that is not known passes")
	}
}
