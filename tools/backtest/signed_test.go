package backtest

import (
	"bytes"
	"testing"

	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestWithKeysOnlyRecordsCountThatDetectorsTake(t *testing.T) {
	t.Parallel()
	keys, foreign := signing.Of([]signing.Master{{1}}), signing.Of([]signing.Master{{2}})
	var out bytes.Buffer
	recorder := must.Get(NewRecorder(&out, "presence.heartbeats", 2, InForce{}))(t)
	tick := schemas.AppendTick(nil)
	for i, value := range [][]byte{keys.Sign(tick, "presence.heartbeats", 0, 1), tick, foreign.Sign(tick, "presence.heartbeats", 0, 1), {0xff}} {
		must.Do(t, recorder.Write(&schemas.Record{Offset: int64(i), Time: schemas.Millis(i + 1), Value: value}))
	}
	must.Do(t, recorder.Write(&schemas.Record{Partition: 1, Offset: 0, Time: 1, Value: keys.Sign(tick, "presence.heartbeats", 0, 1)}))
	must.Do(t, recorder.Close())
	for _, c := range []struct {
		keys            *signing.Keys
		records, broken int64
	}{{nil, 4, 1}, {keys, 1, 1}} {
		source := must.Get(OpenRecording(bytes.NewReader(out.Bytes()), c.keys))(t)
		r := must.Get(Run(t.Context(), source, Options{Policies: policies(t)}))(t)
		if r.Records != c.records || r.Unreadable != c.broken {
			t.Errorf("%d records and %d that cannot be read count, want %d and %d", r.Records, r.Unreadable, c.records, c.broken)
		}
	}
}
