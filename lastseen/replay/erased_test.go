package replay

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// With an archive that does not have the erasure yet, with one that has it, and without one.
func TestNothingFromBeforeAnErasureIsReadWhereverItIs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		changes := entries(rapid.Uint64Range(1, 1000).Draw(rt, "seed"), 9, rapid.IntRange(20, 200).Draw(rt, "length"))
		for i := range changes {
			if changes[i].Cause == schemas.Erased {
				changes[i].Cause = schemas.Bye
			}
		}
		n := rapid.IntRange(1, len(changes)-1).Draw(rt, "erasure")
		erasure := &changes[n]
		erasure.Cause, erasure.From, erasure.To, erasure.ErasedUntil = schemas.Erased, schemas.Offline, schemas.Offline, erasure.At
		erasure.Denies, erasure.AudienceBefore = "", 0
		var want, with []store.Entry
		for _, e := range changes {
			if e.User != erasure.User || e.Version >= erasure.Version {
				with = append(with, e)
			}
			if e.User != erasure.User || e.Version > erasure.Version {
				want = append(want, e)
			}
		}
		log := newTopic(rapid.Int32Range(1, 3).Draw(rt, "partitions"), changes)
		o := Defaults()
		kept := archiveOf(log, rapid.Float64Range(0, 1).Draw(rt, "written"))
		var past Archive
		if rapid.Bool().Draw(rt, "archive") {
			past = kept
			if slices.ContainsFunc(kept.rows, func(e store.Entry) bool { return e.Compare(erasure) == 0 }) {
				kept.erased = map[schemas.UserID]schemas.Version{erasure.User: erasure.Version}
			}
		}
		got, _ := replayed(t, JSONL, log, past, o)
		same(t, "replay", got, written(t, JSONL, want))
		o.Erasures = true
		for _, format := range []Format{JSONL, CSV, Parquet} {
			got, _ = replayed(t, format, log, past, o)
			same(t, "replay with erasures", got, written(t, format, with))
		}
		o.Erasures = false
		must.Get(AsOf(t.Context(), log, past, changes[len(changes)-1].At, &o, func(e *store.Entry) error {
			if e.User == erasure.User && e.Version <= erasure.Version {
				t.Errorf("%+v was in force", e)
			}
			return nil
		}))(t)
	})
}
