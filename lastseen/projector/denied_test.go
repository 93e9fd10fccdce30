package projector_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/schemas"
)

// lists are those of a durable store.
type lists struct {
	audience schemas.Version
	viewers  []schemas.Denial
	err      error
	reads    int
}

func (l *lists) Users(context.Context, []schemas.UserID) (map[schemas.UserID]schemas.Current, error) {
	return nil, l.err
}

func (l *lists) DeniedBy(_ context.Context, user, _ schemas.UserID, limit int) ([]schemas.Denial, schemas.Version, error) {
	if l.reads++; user == 2 || limit < len(l.viewers) {
		return nil, 0, l.err // not known
	}
	return l.viewers, l.audience, l.err
}

func denies(t *testing.T, version, before schemas.Version, viewers ...schemas.UserID) *schemas.Transition {
	c := change(1, version, schemas.Online, schemas.Online)
	c.Cause, c.AudienceBefore, c.Override.Audience = schemas.AudienceSet, before, version
	c.Denies = must.Get(schemas.NewDenies("denies", 1, viewers, nil))(t)
	return c
}

// wantDenied wants so many viewers denied by user 1, whose entry needs the list as of at; -1: Redis does not know.
func (p *pipeline) wantDenied(t *testing.T, at schemas.Version, viewers int) {
	t.Helper()
	if e := p.entries(t, []schemas.UserID{1})[0]; e.Override.Audience != at {
		t.Errorf("the entry has %d, want %d", e.Override.Audience, at)
	}
	d, err := p.view.Denied(t.Context(), 1, at)
	if behind := errors.Is(err, shown.ErrBehind); behind != (viewers < 0) || !behind && (err != nil || len(d.Viewers) != viewers || d.Version < at) {
		t.Errorf("as of %d: %+v, %v; want %d viewers", at, d, err, viewers)
	}
}

func TestAListIsWrittenBeforeAnEntryThatNeedsIt(t *testing.T) {
	t.Parallel()
	p := start(t, redistest.Mini(t))
	p.happen(t, change(1, 5, schemas.Offline, schemas.Online))
	must.Get(p.server.Do("SET presence:deny:{1} broken"))(t)
	batch := stream.Batch[stream.Logged[*schemas.Transition]]{Next: 3, Items: []stream.Logged[*schemas.Transition]{
		{Offset: 1, Message: denies(t, 10, 0, 8)}, {Offset: 2, Message: denies(t, 11, 10, 9)}}}
	if err := p.Apply(t.Context(), batch); err == nil {
		t.Error("nobody noticed that the list was not written")
	}
	if e := p.entries(t, []schemas.UserID{1})[0]; e.Override.Audience != 0 {
		t.Errorf("the entry is %+v", e)
	}
	must.Get(p.server.Do("DEL presence:deny:{1}"))(t)
	for range 2 {
		must.Do(t, p.Apply(t.Context(), batch))
		p.wantDenied(t, 11, 2)
	}
	erased := change(1, 20, schemas.Online, schemas.Offline)
	erased.Cause, erased.ErasedUntil = schemas.Erased, 1
	p.happen(t, erased)
	p.wantDenied(t, 0, 0)
}

func TestAListThatRedisLostIsFilledFromTheStoreOnceThatHasIt(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		if server.Prefix != "" {
			t.Skip("STILLHERE_TEST_REDIS names a server that is not ours to empty")
		}
		p, durable := start(t, server), &lists{audience: 11, viewers: make([]schemas.Denial, schemas.MaxDenied), err: errors.New("away")}
		for i := range durable.viewers {
			durable.viewers[i] = schemas.Denial{Viewer: schemas.UserID(i + 10), At: 5}
		}
		p.WithStore(durable)
		p.tick(t)
		p.happen(t, denies(t, 11, 0, 9))
		p.happen(t, denies(t, 12, 11, 10))
		p.happen(t, change(3, 13, schemas.Offline, schemas.Online)) // the last batch is written again anyway
		p.tick(t)
		p.wantDenied(t, 12, 2)
		if durable.reads != 0 {
			t.Errorf("%d reads of the store though nobody missed a list", durable.reads)
		}
		must.Do(t, server.Flush())
		if p.tick(t); durable.reads != 1 { // rebuilds, and asks a store that does not answer
			t.Errorf("the rebuild has not asked the store: %d reads", durable.reads)
		}
		p.wantDenied(t, 12, -1)
		durable.err = nil
		p.tick(t) // asks one that is behind
		p.wantDenied(t, 12, -1)
		durable.audience = 12
		if _, err := p.view.Denied(t.Context(), 2, 3); !errors.Is(err, shown.ErrBehind) {
			t.Error(err)
		}
		p.tick(t)
		p.wantDenied(t, 12, schemas.MaxDenied)
		reads := durable.reads
		p.tick(t)
		if durable.reads != reads || reads == 0 {
			t.Errorf("after %d reads of the store another %d", reads, durable.reads-reads)
		}
	})
}

// The status of the denial, and the store's list, come later than the transition.
func TestTheLastBatchDeniesAfterARebuildToo(t *testing.T) {
	t.Parallel()
	p, durable := start(t, redistest.Mini(t)), &lists{audience: 11, viewers: []schemas.Denial{{Viewer: 9, At: 5}}}
	p.WithStore(durable)
	p.happen(t, denies(t, 11, 0, 9))
	p.tick(t)
	p.stated = map[schemas.UserID]schemas.Status{1: {User: 1, State: schemas.Online, Since: 5, Visibility: schemas.Everyone,
		Version: 11, Override: schemas.Override{Audience: 11}}}
	must.Do(t, p.server.Flush())
	p.happen(t, denies(t, 12, 11, 10)) // rebuilds
	p.wantDenied(t, 12, -1)
	p.tick(t)
	p.wantDenied(t, 12, -1)
	durable.audience, durable.viewers = 12, append(durable.viewers, schemas.Denial{Viewer: 10, At: 6})
	p.tick(t)
	p.wantDenied(t, 12, 2)
}

func TestASecondOwnerDoesNotBringAnOlderList(t *testing.T) {
	t.Parallel()
	server := redistest.Mini(t)
	older, newer := start(t, server), start(t, server)
	first := denies(t, 11, 0, 9)
	newer.tick(t)
	for _, p := range []*pipeline{newer, older} {
		p.happen(t, first)
	}
	newer.happen(t, denies(t, 12, 11, 10))
	older.happen(t, first)
	newer.wantDenied(t, 12, 2)
	must.Get(server.Do("DEL presence:deny:{1}"))(t)
	older.happen(t, first)
	newer.wantDenied(t, 12, -1)
}
