package status

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

func TestEachTableHasTheSameRowsInEveryFormat(t *testing.T) {
	t.Parallel()
	for table, want := range map[string]struct {
		head, last string
		rows       int
	}{
		"instances":  {"at,role,instance,version,host,started_at,ready", "2026-11-23T12:00:00.000Z,fanout,fanout-0,1.2.4,fanout-0,,true", 5},
		"partitions": {"at,partition,owner,phase,lag_records,lag_seconds,watermark_age_seconds", "2026-11-23T12:00:00.000Z,63,detector-0,assigned,10,0.2,0.4", 64},
		"groups":     {"at,group,role,state,lag_records,members", "2026-11-23T12:00:00.000Z,stillhere.detector,detector,Stable,0,dev", 1},
		"gateways":   {"at,gateway,state,users,last_seen_at,epoch", "2026-11-23T12:00:00.000Z,gw-29\x1b[31m,alive,11087,2026-11-23T11:59:59.000Z,2026-11-22T11:00:00.000Z", 31},
	} {
		written := map[string]*bytes.Buffer{}
		for _, format := range []string{"json", "jsonl", "csv", "parquet"} {
			written[format] = new(bytes.Buffer)
			w, err := NewRows(written[format], format, table)
			if err == nil {
				err = w.Write(large())
			}
			if err == nil {
				err = w.Close()
			}
			if err != nil {
				t.Fatalf("%s in %s: %v", table, format, err)
			}
		}
		text := strings.TrimSuffix(written["csv"].String(), "\n")
		lines := strings.Split(text, "\n")
		if rows, err := csv.NewReader(strings.NewReader(text)).ReadAll(); err != nil || len(rows) != 1+want.rows || lines[0] != want.head || lines[len(lines)-1] != want.last {
			t.Errorf("%s in CSV: %v, %d rows, %q, %q", table, err, len(rows)-1, lines[0], lines[len(lines)-1])
		}
		var all []map[string]any
		if err := json.Unmarshal(written["json"].Bytes(), &all); err != nil || len(all) != want.rows || all[0]["at"] != "2026-11-23T12:00:00.000Z" {
			t.Errorf("%s in JSON: %v, %d rows", table, err, len(all))
		}
		if n := strings.Count(written["jsonl"].String(), "\n"); n != want.rows {
			t.Errorf("%s in JSON lines: %d rows", table, n)
		}
		file, err := parquet.OpenFile(bytes.NewReader(written["parquet"].Bytes()), int64(written["parquet"].Len()))
		if err != nil || file.NumRows() != int64(want.rows) {
			t.Fatalf("%s in Parquet: %v", table, err)
		}
		var names []string
		for _, field := range file.Schema().Fields() {
			names = append(names, field.Name())
		}
		if strings.Join(names, ",") != want.head {
			t.Errorf("%s in Parquet has %q", table, names)
		}
	}
	if _, err := NewRows(new(bytes.Buffer), "csv", "users"); err == nil {
		t.Error("a table that is not there passes")
	}
}

func TestATableOfThePageIsPrintedByItself(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{"instances": "ROLE", "partitions": "PARTITION", "groups": "GROUP", "gateways": "GATEWAY"} {
		var one, page bytes.Buffer
		if err := WriteTable(&one, small(), name); err != nil || !strings.HasPrefix(one.String(), head+" ") {
			t.Errorf("%s: %v\n%s", name, err, one.String())
		}
		if err := WriteText(&page, small()); err != nil || !strings.Contains(page.String(), "\n\n"+head+" ") {
			t.Errorf("%v, the page lacks %s:\n%s", err, name, page.String())
		}
	}
	if err := WriteTable(new(bytes.Buffer), small(), "users"); err == nil {
		t.Error("a table that is not there passes")
	}
}
