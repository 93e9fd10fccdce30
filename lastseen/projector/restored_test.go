package projector_test

import (
	"context"
	"testing"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/schemas"
)

func TestReadsAreStaleFromTheRestoreOfAnOlderLogUntilALogEpochAboveAndThenRight(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		lost := start(t, server)
		version := func(epoch uint32, offset int64) schemas.Version { return schemas.NewVersion(epoch, offset, 0) }
		must.Get(lost.Start(t.Context(), stream.Assignment{Offset: 0}))(t)
		both := []*schemas.Transition{change(1, version(1, 10), schemas.Offline, schemas.Online), change(2, version(1, 11), schemas.Offline, schemas.Online)}
		lost.happen(t, both...)
		copied := map[schemas.UserID]schemas.Current{1: lost.users[1], 2: lost.users[2]}
		came := change(3, version(1, 21), schemas.Offline, schemas.Online)
		came.At -= 60_000
		lost.happen(t, change(1, version(1, 20), schemas.Online, schemas.Offline), came)
		must.Do(t, lost.Watermark(t.Context(), 0, now()-60_000))

		p := start(t, server)
		if at, err := p.Start(t.Context(), stream.Assignment{Offset: 2, LogEnd: 4}); err != nil || at.Next != 4 {
			t.Fatalf("start at %+v (%v), want 4", at, err)
		}
		// A partition of the copy may have no record that says it.
		empty := start(t, server)
		must.Get(empty.Start(t.Context(), stream.Assignment{}))(t)
		empty.tick(t)
		if users, err := empty.reader.Read(t.Context(), []schemas.UserID{1}, nil); err != nil || users[0].StaleSince == 0 {
			t.Errorf("%+v is not stale although the log is empty (%v)", users, err)
		}
		p.users = copied
		p.happen(t, both...)
		p.happen(t, change(2, version(1, 15), schemas.Online, schemas.Away))
		p.tick(t)
		users := must.Get(lost.reader.Read(t.Context(), []schemas.UserID{1, 2, 3}, nil))(t)
		for _, u := range users {
			if u.StaleSince == 0 {
				t.Errorf("%+v is not stale", u)
			}
		}
		for _, waits := range []*pipeline{empty, p} {
			if epoch, partitions := waits.metrics.Awaited.Of(lastseen.Projector); epoch != 2 || partitions != 1 {
				t.Errorf("log epoch %d is awaited in %d partitions, want 2 in 1", epoch, partitions)
			}
		}
		// The detector begins a log epoch, and states again who is present.
		p.stated = map[schemas.UserID]schemas.Status{}
		p.happen(t, change(2, version(2, 16), schemas.Away, schemas.Online))
		p.tick(t)
		users = must.Get(p.reader.Read(t.Context(), []schemas.UserID{1, 2, 3}, nil))(t)
		for i, stale := range []bool{false, false, true} { // the third is present in the lost part only
			if u := users[i]; *u.State != "online" || (u.StaleSince != 0) != stale {
				t.Errorf("%+v, want stale: %t", u, stale)
			}
		}
		empty.Stop(0)
		for _, goesOn := range []*pipeline{empty, p} {
			if epoch, _ := goesOn.metrics.Awaited.Of(lastseen.Projector); epoch != 0 {
				t.Errorf("log epoch %d is awaited still", epoch)
			}
		}
		again, err := start(t, server).Start(t.Context(), stream.Assignment{Offset: 4})
		if err != nil || again.Next != 4 {
			t.Errorf("start at %+v (%v), want 4", again, err)
		}
	})
}

func TestAProjectorThatWasStoppedWhileItReplacedAnOlderLogGoesOnReplacing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		lost := start(t, server)
		hides := change(1, schemas.NewVersion(1, 10, 0), schemas.Online, schemas.Online)
		hides.Visibility = schemas.Nobody
		lost.happen(t, hides)
		hidden := lost.users[1]
		lost.happen(t, change(1, schemas.NewVersion(1, 20, 0), schemas.Online, schemas.Online)) // in the lost part the user shows itself

		p := start(t, server)
		must.Get(p.Start(t.Context(), stream.Assignment{LogEnd: 1}))(t)
		ctx, kill := context.WithCancel(t.Context())
		p.users = map[schemas.UserID]schemas.Current{1: hidden}
		p.during = kill
		above := []stream.Logged[*schemas.Transition]{{Message: change(2, schemas.NewVersion(2, 1, 0), schemas.Offline, schemas.Online)}}
		if err := p.Apply(ctx, stream.Batch[stream.Logged[*schemas.Transition]]{Items: above, Next: 1}); err == nil {
			t.Fatal("the rebuild ended")
		}

		again := start(t, server)
		again.users = p.users
		must.Get(again.Start(t.Context(), stream.Assignment{LogEnd: 1}))(t)
		again.happen(t, above[0].Message)
		if e := again.entries(t, []schemas.UserID{1})[0]; e.Visibility != schemas.Nobody || e.Version != hides.Version {
			t.Errorf("the user who is hidden in the log is %+v", e)
		}
	})
}
