package beat_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/schemas"
)

func TestFramesNameTheUsersOfNamedBeats(t *testing.T) {
	t.Parallel()
	inBubble(t, func(g gateway) {
		// All in one partition, so that rows with names and without share a frame.
		ann := schemas.Name{Tenant: "acme", Text: "ann"}
		for user := schemas.UserID(1); user <= 40; user++ {
			var name *schemas.Name
			if user == 17 {
				name = &ann
			}
			if err := g.NamedBeat(user, name, 7, schemas.Mobile, 0); err != nil {
				t.Fatal(err)
			}
		}
		k, err := g.NamedConnect(99, &schemas.Name{Text: "bob"}, 7, schemas.Web, 0)
		if err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second)
		got := map[schemas.UserID]schemas.Name{}
		for _, w := range g.log.Written() {
			for user, name := range w.Names {
				got[user] = name
			}
		}
		if len(got) != 2 || got[17] != ann || got[99].Text != "bob" {
			t.Errorf("the names are %+v", got)
		}
		if err := k.Bye(); err != nil {
			t.Error(err)
		}
	})
}

// Not parallel: it counts the allocations of the whole process.
func TestRepeatedBeatsByNameDoNotAllocate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := beat.New(beat.Config{GatewayID: "gw-1", Partitions: 12}, nowhere{})
		if err != nil {
			t.Fatal(err)
		}
		defer closed(t, c)
		k, err := c.NamedConnect(1, &schemas.Name{Text: "ann"}, 7, schemas.Web, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := testing.AllocsPerRun(100, func() { _ = k.Beat(0) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}
