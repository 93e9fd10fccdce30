package dataset

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/replay"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func TestAJSONDocumentHasTheLinesOfJSONLAsItsElements(t *testing.T) {
	t.Parallel()
	e := &store.Entry{Transition: schemas.Transition{User: 1 << 60, To: schemas.Online, At: 1000, Version: 1 << 61, Kinds: 3}}
	e.Name = schemas.Name{Tenant: "acme", Text: "a\"<b>\n"}
	s := &replay.Session{User: 7, Name: e.Name, Start: 1000, End: 2000, Open: true}
	for _, columns := range []replay.Columns{replay.IDs, replay.Named} {
		for rows := range 3 {
			written := func(format replay.Format) [3]*bytes.Buffer {
				out := [3]*bytes.Buffer{new(bytes.Buffer), new(bytes.Buffer), new(bytes.Buffer)}
				changes, states, sessions := Changes(columns, format, out[0]), States(columns, format, out[1]), Sessions(columns, format, out[2])
				for range rows {
					must.Do(t, changes.Write(e), states.Write(e), sessions.Write(s))
				}
				must.Do(t, changes.Flush(), changes.Close(), states.Close(), sessions.Close())
				return out
			}
			lines, documents := written(replay.JSONL), written(JSON)
			for i := range lines {
				all := []any{}
				for decoder := json.NewDecoder(lines[i]); decoder.More(); {
					var one any
					must.Do(t, decoder.Decode(&one))
					all = append(all, one)
				}
				var got []any
				if err := json.Unmarshal(documents[i].Bytes(), &got); err != nil || len(got) != rows || !reflect.DeepEqual(got, all) {
					t.Errorf("%v, %v, want %v", err, got, all)
				}
			}
		}
	}
}

func TestATableHasWhatTheUserChose(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	table := Changes(replay.IDs, Table, &out)
	for _, o := range []schemas.Override{{LastSeen: schemas.SeenCoarsely}, {State: schemas.SetAway, LastSeen: schemas.SeenNever}} {
		must.Do(t, table.Write(&store.Entry{Transition: schemas.Transition{User: 1, At: 1000, Version: 1, Override: o}}))
	}
	must.Do(t, table.Close())
	if !regexp.MustCompile(`(?s)  last_seen=coarse  .*  away last_seen=never  `).Match(out.Bytes()) {
		t.Errorf("the table is\n%s", &out)
	}
}
