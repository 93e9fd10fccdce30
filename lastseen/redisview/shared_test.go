package redisview

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func TestReadersWhoShareARoundTripEachGetTheirOwnUsers(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		v := open(t, server)
		const users, readers, reads = 300, 16, 60
		log := make([]*schemas.Transition, users)
		for i := range log {
			log[i] = &schemas.Transition{User: schemas.UserID(i + 1), From: schemas.Offline, To: schemas.Online, At: 1000 + schemas.Millis(i),
				Visibility: schemas.Everyone, Version: schemas.Version(i + 1)}
		}
		must.Get(v.Write(t.Context(), 1, store.Fold(log)))(t)
		faults := make([]error, readers)
		var all sync.WaitGroup
		for reader := range readers {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(reader), 1))
				for range reads {
					ids := make([]schemas.UserID, 1+random.IntN(50))
					for i := range ids {
						ids[i] = schemas.UserID(1 + random.IntN(users+20)) // some are not there
					}
					entries, _, err := v.Read(t.Context(), ids)
					if err != nil {
						faults[reader] = err
						return
					}
					for i, id := range ids {
						if e := entries[i]; e.Found != (id <= users) || e.Found && e.Version != schemas.Version(id) {
							faults[reader] = errors.Join(faults[reader], fmt.Errorf("user %d is %+v", id, e))
						}
					}
				}
			})
		}
		all.Wait()
		must.Do(t, errors.Join(faults...))
	})
}

func TestAReaderWhoseTimeIsOverDoesNotWaitForTheOthers(t *testing.T) {
	t.Parallel()
	v := open(t, redistest.Mini(t))
	v.sharedReads.running = maxReads // nobody lands
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := v.Read(ctx, []schemas.UserID{1}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	f := v.sharedReads.release()
	f.users.Add(1) // keeps it
	v.runBatches(f)
	v.sharedReads.running = 0
	if f.err != nil || len(f.got) != 1 {
		t.Errorf("the others got %v, %v", f.got, f.err)
	}
}
