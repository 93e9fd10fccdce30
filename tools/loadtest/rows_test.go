package loadtest

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/parquet-go/parquet-go"
)

func TestFiguresAreRowsOfEveryFormat(t *testing.T) {
	t.Parallel()
	r := &Report{Results: []Result{{Name: "pipeline"}, {Name: "silence"}}}
	r.Results[0].Add("beats a second", 1234.5, "/s").AtLeast(1000)
	r.Results[1].Add("late", 0.25, "ms").LessIsBetter()
	r.Results[1].Note("On a busy machine.")
	written := func(format string) []byte {
		var out bytes.Buffer
		if err := (&Flags{Output: format}).write(&out, r); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		return out.Bytes()
	}
	const csv = "bench,name,value,unit,target,less_is_better\n" +
		"pipeline,beats a second,1234.5,/s,1000,false\nsilence,late,0.25,ms,,true\n"
	if got := string(written("csv")); got != csv {
		t.Errorf("CSV is\n%swant\n%s", got, csv)
	}
	const lines = `{"bench":"pipeline","name":"beats a second","value":1234.5,"unit":"/s","target":1000}` + "\n" +
		`{"bench":"silence","name":"late","value":0.25,"unit":"ms","less_is_better":true}` + "\n"
	if got := string(written("jsonl")); got != lines {
		t.Errorf("JSON lines are\n%swant\n%s", got, lines)
	}
	var back Report
	if err := json.Unmarshal(written("json"), &back); err != nil || !reflect.DeepEqual(back.Results, r.Results) {
		t.Errorf("JSON is no report: %v", err)
	}
	type row struct {
		Bench  string   `parquet:"bench"`
		Value  float64  `parquet:"value"`
		Target *float64 `parquet:"target,optional"`
		Less   bool     `parquet:"less_is_better"`
	}
	file := written("parquet")
	got, err := parquet.Read[row](bytes.NewReader(file), int64(len(file)))
	thousand := 1000.0
	if want := []row{{"pipeline", 1234.5, &thousand, false}, {"silence", 0.25, nil, true}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Parquet has %+v, %v", got, err)
	}
	const table = "BENCH     FIGURE          VALUE  UNIT  TARGET\n" +
		"pipeline  beats a second  1,234  /s    ≥ 1,000 ✓\nsilence   late            0.25   ms    -\nsilence: On a busy machine.\n"
	if got := string(written("table")); got != table {
		t.Errorf("the table is\n%swant\n%s", got, table)
	}
	for what, f := range map[string]Figure{"≥ 10.0 ✗": {Value: 9, Target: 10}, "≤ 1,000 ✗": {Value: 2500, Target: 1000, Less: true}, "≤ 50.0 ✓": {Value: 50, Target: 50, Less: true}} {
		if got := f.target(); got != what {
			t.Errorf("%+v has the target %q, want %q", f, got, what)
		}
	}
}
